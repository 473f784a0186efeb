// What a host does with an answer: the decision is made of fields, never of texts, and every word has a branch.
import type { CommitState, Envelope, Failure, FieldError, NextAction, SafeDetails, UnknownWord, Verification } from "./envelope";

export type Decision<T> =
  | { readonly step: "succeeded"; readonly result: T | undefined; readonly known: Verification }
  | { readonly step: "needs_input"; readonly details: SafeDetails; readonly errors: readonly FieldError[] }
  | { readonly step: "scheduled"; readonly ref: string | undefined; readonly notBefore: string | undefined }
  | { readonly step: "verification"; readonly ref: string | undefined; readonly notBefore: string | undefined }
  | { readonly step: "approval"; readonly code: string }
  | { readonly step: "escalated"; readonly code: string; readonly word: string };

export function decide<T>(answer: Envelope<T>): Decision<T> {
  if (answer.ok) {
    return { step: "succeeded", result: answer.result, known: answer.verification };
  }
  switch (answer.next_action) {
    case "correct_input":
      return { step: "needs_input", details: answer.safe_details ?? {}, errors: answer.field_errors ?? [] };
    case "wait_and_retry":
      return { step: "scheduled", ref: answer.operation_ref, notBefore: answer.retry.not_before };
    case "verify_operation":
      return { step: "verification", ref: answer.operation_ref, notBefore: answer.retry.not_before };
    case "request_approval":
      return { step: "approval", code: answer.code };
    case "escalate":
      return { step: "escalated", code: answer.code, word: answer.next_action };
    default: {
      // A word of a later version. Were one of the listed words without a case, this would not compile.
      const later: UnknownWord = answer.next_action;
      return { step: "escalated", code: answer.code, word: later };
    }
  }
}

/** Returns word when it is listed. The compiler holds the list complete. */
function listed<W extends string>(word: W | UnknownWord, all: Readonly<Record<W, true>>): word is W {
  return Object.hasOwn(all, word);
}

/** The next action, with the safe one in the place of a word nobody knows. */
export function nextAction(answer: Envelope): NextAction {
  const word = answer.next_action;
  const all: Record<NextAction, true> = {
    continue: true, correct_input: true, wait_and_retry: true, verify_operation: true, request_approval: true, escalate: true,
  };
  return listed(word, all) ? word : "escalate";
}

/** The commit state, with the safe one in the place of a word nobody knows. */
export function commitState(answer: Envelope): CommitState {
  const word = answer.commit_state;
  return listed(word, { not_committed: true, committed: true, unknown: true }) ? word : "unknown";
}

/** Once unknown words are out of the way, the switch is exhaustive in the usual manner. */
export function mayHaveHappened(answer: Envelope): boolean {
  const state = commitState(answer);
  switch (state) {
    case "not_committed":
      return false;
    case "committed":
    case "unknown":
      return true;
    default:
      return unreachable(state);
  }
}

function unreachable(nothing: never): never {
  throw new Error(`no branch for ${String(nothing)}`);
}

/** Both shapes are all there is. */
export function shapeOf(answer: Envelope): "success" | "failure" {
  switch (answer.ok) {
    case true:
      return "success";
    case false:
      return "failure";
    default:
      return unreachable(answer);
  }
}

/** Only a text that a model reads is made of messages. */
export function tell(answer: Failure): string {
  return answer.agent_message;
}

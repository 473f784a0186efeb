// What must not compile. A line marked @ts-expect-error that does compile is an error itself, so this file holds the
// declaration to be as strict as it is meant to be.
import type { CommitState, Envelope, Failure, NextAction, Success, UnknownWord } from "./envelope";

declare const answer: Envelope<{ receipt: string }>;
declare const failure: Failure;
declare const verification: Success["verification"];

// @ts-expect-error: there is a result only after ok was asked
export const unasked = answer.result;
// @ts-expect-error: a failure has no result
export const none = answer.ok ? undefined : answer.result;
// @ts-expect-error: a success has no class
export const graded = answer.ok ? answer.class : undefined;
// @ts-expect-error: nor anything to retry
export const again = answer.ok ? answer.retry : undefined;
// @ts-expect-error: a result may not be there, also with ok
export const receipt = answer.ok ? answer.result.receipt : "";
// @ts-expect-error: misspelt
export const misspelt = answer.comit_state;
// @ts-expect-error: the wire has snake_case
export const camel = answer.nextAction;
// @ts-expect-error: the wire says recorded
export const unrecorded = answer.unrecorded;
// @ts-expect-error: ok is no text
export const text = answer.ok === "true";
// @ts-expect-error: a word that no version lists cannot be compared with
export const typo = failure.next_action === "wait";
// @ts-expect-error: a failure is never committed
export const contradiction = failure.commit_state === "committed";
// @ts-expect-error: and never goes on
export const goesOn = failure.next_action === "continue";
// @ts-expect-error: a detail need not be a text
export const field: string = failure.safe_details?.field ?? "";
// @ts-expect-error: a message need not be there on a success
export const message: string = answer.agent_message;

// @ts-expect-error: a commit state is no number
export const number: CommitState | UnknownWord = 2;
// @ts-expect-error: a text does not become an unknown word by itself
export const smuggled: UnknownWord = "half";
// @ts-expect-error: ok false goes with no result
export const both: Envelope<number> = { ...failure, ok: false, result: 1 };
// @ts-expect-error: a success without verification
export const unverified: Envelope<number> = { ok: true, code: "OK", commit_state: "committed", next_action: "continue", result: 1 };
// @ts-expect-error: a success is committed
export const undecided: Envelope<number> = { ok: true, code: "OK", commit_state: "unknown", next_action: "continue", verification };
// @ts-expect-error: a result of another type
export const other: Envelope<number> = { ok: true, code: "OK", commit_state: "committed", next_action: "continue", verification, result: "1" };
// @ts-expect-error: no code
export const uncoded: Failure = { ok: false, class: "transient", category: "dependency", commit_state: "unknown", next_action: "escalate", retry: failure.retry, agent_message: "", user_message: "" };

export function frozen(): void {
  // @ts-expect-error: an answer is not written to
  failure.next_action = "escalate";
  // @ts-expect-error: nor are its parts
  failure.retry.max_attempts_remaining = 3;
}

export function forgetful(): UnknownWord | undefined {
  switch (failure.next_action) {
    case "correct_input":
    case "wait_and_retry":
    case "request_approval":
    case "escalate":
      return undefined;
    default: {
      // @ts-expect-error: verify_operation has no case
      const later: UnknownWord = failure.next_action;
      return later;
    }
  }
}

export function closed(): NextAction {
  // @ts-expect-error: a later version may send another word, so it is not one of these
  return failure.next_action;
}

export function truthy(): NextAction | undefined {
  // @ts-expect-error: a word nobody knows is a word all the same
  return failure.next_action ? failure.next_action : undefined;
}

export function different(word: UnknownWord): NextAction | undefined {
  // @ts-expect-error: another unknown word is left
  return failure.next_action === word ? undefined : failure.next_action;
}

export function exhausted(): never {
  switch (failure.commit_state) {
    case "not_committed":
    case "unknown":
      throw new Error();
    default:
      // @ts-expect-error: a later version's word is left
      return failure.commit_state;
  }
}

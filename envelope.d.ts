// The answers of toolexec as they are on the wire, for TypeScript 5.0 or later with `strict`. What each field means is in
// envelope.schema.json and in the documentation of the Go type Envelope.
//
//     const answer = JSON.parse(text) as Envelope<Receipt>;
//     if (answer.ok) {
//       use(answer.result, answer.verification);
//     } else {
//       switch (answer.next_action) {
//         case "correct_input": ...
//         case "wait_and_retry": ...
//         case "verify_operation": ...
//         case "request_approval": ...
//         case "escalate": ...
//         default: {
//           const later: UnknownWord = answer.next_action;
//           escalate(answer, later);
//         }
//       }
//     }
//
// Words of a later version. An answer may hold a word that is not listed here, so each field's type is the listed words and
// UnknownWord. A switch therefore always needs a default, and the default must do the safe thing:
//
//     commit_state  acts as "unknown":   it may have happened, so do not send it again
//     next_action   acts as "escalate":  hand it to a person
//     directive     acts as "never"
//     class         acts as "permanent"
//     category      acts as "internal"
//
// To have the compiler find a listed word without a case, assign the word to an UnknownWord in the default, as above: that
// compiles only when nothing else is left.
//
// A cast checks nothing. Where the text comes from elsewhere, validate it against envelope.schema.json first: an object
// without "ok" is not an answer, and a missing field must never read as permission. JSON.parse rounds whole numbers beyond
// 2^53, also those in safe_details and in the result.

// An enum, because a text can neither be assigned to one nor compared with it, so that a misspelt word does not compile;
// a branded string can be compared with every word. It has two members, none of them empty, because the compiler would
// otherwise take a comparison, or a test for truth, to rule unknown words out. It exists in types only.
declare enum Unlisted {
  Word = "a word of a later version",
  Other = "another word of a later version",
}

/** A word that a later version sent: a string, and none of the listed words. */
export type UnknownWord = Unlisted;

/** Would repeating help? Only "transient" says that it may. */
export type Class = "transient" | "permanent" | "empty_result" | "malformed" | "unknown_tool";

/** Who is asked to act on a failure. */
export type Category = "validation" | "authorization" | "conflict" | "dependency" | "internal";

/** Whether the change of state happened, over all attempts of the operation. */
export type CommitState = "not_committed" | "committed" | "unknown";

/** Whether the model may call this tool again with this operation_ref. */
export type Directive = "never" | "after_delay" | "after_input_fix";

/** What the host may do next. "continue" goes with a success, and nothing else does. */
export type NextAction =
  | "continue"
  | "correct_input"
  | "wait_and_retry"
  | "verify_operation"
  | "request_approval"
  | "escalate";

/** How a commit is known: by the tool's own run, by a look-up, or from a person. */
export type Source = "execution" | "lookup" | "operator";

/** What safe_details hold. */
export type Scalar = string | number | boolean;

export interface Retry {
  readonly directive: Directive | UnknownWord;
  /** RFC 3339. The earliest sensible time for next_action, also when the directive is "never". Absent: at once. */
  readonly not_before?: string;
  /** What is left of the operation's budget; 0 with "never". */
  readonly max_attempts_remaining: number;
}

export interface Verification {
  /** RFC 3339. */
  readonly checked_at: string;
  readonly source: Source | UnknownWord;
  /** Names the evidence on the remote side. */
  readonly evidence_ref?: string;
}

/** One violation of malformed arguments. It never holds the value that was received. */
export interface FieldError {
  /** JSON Pointer (RFC 6901); "" is the whole. */
  readonly pointer: string;
  /** The keyword of the schema that was broken, or "syntax", "decode", ... */
  readonly rule: string;
  readonly expected?: string;
  /** A JSON type, or "absent". */
  readonly received?: string;
  readonly allowed?: readonly string[];
}

/** Scalars under these keys and those that the tool declares. Never text from a remote system. */
export interface SafeDetails {
  readonly field?: Scalar;
  /** Joined by commas. */
  readonly allowed_values?: Scalar;
  /** Seconds. */
  readonly retry_after?: Scalar;
  readonly resource_version?: Scalar;
  readonly verification_tool?: Scalar;
  readonly existing_commit_state?: Scalar;
  readonly partial?: Scalar;
  readonly note?: Scalar;
  readonly [key: string]: Scalar | undefined;
}

/** The operation succeeded. */
export interface Success<T = unknown> {
  readonly ok: true;
  readonly code: "OK";
  readonly commit_state: "committed";
  readonly next_action: "continue";
  /** Names the operation; calling again with it is always safe. */
  readonly operation_ref?: string;
  /** Absent when it is not kept: the operation is committed all the same, so do not repeat it. It may be null. */
  readonly result?: T;
  /** The tool did not run for this call: the answer is that of an earlier one. */
  readonly replayed?: true;
  /** The success could not be stored yet: a later call may read "unknown" until verification settles it. */
  readonly recorded?: false;
  /** When and from what the commit is known. */
  readonly verification: Verification;
  readonly safe_details?: SafeDetails;
  readonly agent_message?: string;
  readonly user_message?: string;
}

/** The operation did not succeed, or nobody knows. */
export interface Failure {
  readonly ok: false;
  /** Stable and documented; a tool may have its own. */
  readonly code: string;
  readonly class: Class | UnknownWord;
  readonly category: Category | UnknownWord;
  readonly commit_state: Exclude<CommitState, "committed"> | UnknownWord;
  readonly retry: Retry;
  readonly next_action: Exclude<NextAction, "continue"> | UnknownWord;
  /** Names the operation; calling again with it is always safe. Absent when there is none. */
  readonly operation_ref?: string;
  /** What is known could not be stored. */
  readonly recorded?: false;
  /** When the operation was last looked for. */
  readonly verification?: Verification;
  readonly safe_details?: SafeDetails;
  /** Every violation, where the arguments were refused. */
  readonly field_errors?: readonly FieldError[];
  /** For the model. Decide from the fields, never from the texts. */
  readonly agent_message: string;
  /** For the person that the model speaks with. */
  readonly user_message: string;
}

/** The one answer to a call. Ask `ok` first: only then is there a result, or a next action to switch over. */
export type Envelope<T = unknown> = Success<T> | Failure;

export {};

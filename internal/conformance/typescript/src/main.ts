// Decides every captured answer, and one of a later version, and prints the decisions for the Go test.
import { captured } from "./captured";
import { commitState, decide, mayHaveHappened, nextAction, shapeOf } from "./decide";
import type { Envelope } from "./envelope";

declare const console: { log(text: string): void };

const later: Envelope = JSON.parse(`{
  "ok": false, "code": "NEW", "class": "eventual", "category": "weather", "commit_state": "half", "next_action": "dance",
  "retry": {"directive": "maybe", "max_attempts_remaining": 3}, "agent_message": "", "user_message": ""
}`);
const inherited: Envelope = { ...JSON.parse(JSON.stringify(later)), next_action: "toString", commit_state: "constructor" };

const out: Record<string, unknown> = {};
for (const [name, answer] of Object.entries<Envelope>({ ...captured, later, inherited })) {
  out[name] = {
    shape: shapeOf(answer),
    step: decide(answer).step,
    next_action: nextAction(answer),
    commit_state: commitState(answer),
    may_have_happened: mayHaveHappened(answer),
  };
}
console.log(JSON.stringify(out));

import { expect } from "chai";
import { firstOutputOf } from "../../../provider/upstream/engine-timings.ts";
import { usageOfAnswer } from "../../../provider/upstream/usage-meter.ts";

const span = { startedAt: 1_000, endedAt: 1_500 };
const choice = { index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" };
const usage = (completion_tokens: number) => ({ prompt_tokens: 100, completion_tokens });
const firstOutput = (answer: Record<string, unknown>) => firstOutputOf(answer, usageOfAnswer(answer, 25), span);

describe("the first token of an answer in one piece", () => {
  it("came as long before its end as the engine generated", () => {
    const timings = { prompt_n: 100, predicted_ms: 200.5 };
    expect(firstOutput({ choices: [choice], usage: usage(30), timings })).to.equal(1_299.5);
  });

  it("is its end when there is no second one", () => {
    expect(firstOutput({ choices: [choice], usage: usage(1) })).to.equal(1_500);
  });

  it("is not known where nobody says, so that the time of generating is not taken for the prompt's", () => {
    expect(firstOutput({ choices: [choice], usage: usage(30) })).to.equal(undefined);
    expect(firstOutput({ choices: [{ ...choice, message: { content: "Y" } }] }), "estimated").to.equal(undefined);
  });

  it("is not known of several choices, as timings tell of one", () => {
    const timings = { prompt_n: 100, predicted_ms: 200 };
    expect(firstOutput({ choices: [choice, choice], usage: usage(30), timings })).to.equal(undefined);
  });

  it("is not believed where the timings cannot be true", () => {
    for (const predicted_ms of [501, -1, Number.NaN, "200", null]) {
      const timings = { prompt_n: 100, predicted_ms };
      expect(firstOutput({ choices: [choice], usage: usage(30), timings })).to.equal(undefined);
    }
    expect(firstOutput({ choices: [choice], usage: usage(30), timings: [] })).to.equal(undefined);
  });
});

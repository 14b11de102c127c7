import { expect } from "chai";
import { SseSplitter } from "../../../protocol/sse.ts";
import { UsageMeter, usageOfAnswer } from "../../../provider/upstream/usage-meter.ts";

function metered(text: string, estimatedInput = 50): UsageMeter {
  const meter = new UsageMeter(estimatedInput);
  for (const frame of new SseSplitter().push(Buffer.from(text))) meter.take(frame);
  return meter;
}

const frame = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const word = (content: string, extra: object = {}): string =>
  frame({ choices: [{ index: 0, delta: { content } }], ...extra });
const usage = (prompt_tokens: number, completion_tokens: number, more: object = {}) => ({
  usage: { prompt_tokens, completion_tokens, ...more },
});

describe("UsageMeter", () => {
  it("takes the usage chunk's word", () => {
    const meter = metered(word("a") + word("b") + frame({ choices: [], ...usage(10, 7) }) + "data: [DONE]\n\n");
    expect(meter.read()).to.deep.equal({
      usage: { inputTokens: 10, outputTokens: 7 },
      estimated: false,
      cachedInputTokens: 0,
    });
    expect(meter.isComplete).to.equal(true);
  });

  it("takes what the engine computed of the prompt where the usage does not say what was cached, so that a warm cache is no fast engine", () => {
    const last = (timings: object, details: object = {}) =>
      metered(word("a") + frame({ choices: [], ...usage(10, 7, details), timings })).read().cachedInputTokens;
    expect(last({ prompt_n: 4, prompt_ms: 2, predicted_ms: 9 })).to.equal(6);
    expect(last({ prompt_n: 4, predicted_ms: 9 }, { prompt_tokens_details: { cached_tokens: 3 } })).to.equal(3);
    for (const timings of [{ prompt_n: 12, predicted_ms: 9 }, { prompt_n: -1, predicted_ms: 9 }, { predicted_ms: 9 }])
      expect(last(timings)).to.equal(0);
  });

  it("takes usage that rides on a chunk with choices", () => {
    const meter = metered(
      word("a") + frame({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], ...usage(10, 1) }),
    );
    expect(meter.read().usage).to.deep.equal({ inputTokens: 10, outputTokens: 1 });
    expect(meter.read().estimated).to.equal(false);
    expect(meter.isComplete).to.equal(true);
  });

  it("adds the deltas after an early usage, so that a stream cut later is not settled at its start", () => {
    const meter = metered(word("a", usage(10, 1)) + word("b") + word("c"));
    expect(meter.read()).to.deep.include({ usage: { inputTokens: 10, outputTokens: 3 }, estimated: true });
    expect(meter.isComplete).to.equal(false);
  });

  it("follows a running total", () => {
    const meter = metered(word("a", usage(10, 2)) + word("b", usage(10, 5)));
    expect(meter.read()).to.deep.include({ usage: { inputTokens: 10, outputTokens: 5 }, estimated: false });
  });

  it("counts deltas and estimates the prompt, flagged, where a backend says nothing", () => {
    const meter = metered(
      frame({ choices: [{ index: 0, delta: { role: "assistant", content: "" } }] }) +
        word("a") +
        word("b") +
        "data: [DONE]\n\n",
    );
    expect(meter.read()).to.deep.equal({
      usage: { inputTokens: 50, outputTokens: 2 },
      estimated: true,
      cachedInputTokens: 0,
    });
  });

  it("counts text, reasoning, refusals and tool calls as output, a role and an end not", () => {
    const outputs = [
      { choices: [{ text: "a" }] },
      { choices: [{ delta: { reasoning_content: "a" } }] },
      { choices: [{ delta: { refusal: "a" } }] },
      { choices: [{ delta: { tool_calls: [{ index: 0 }] } }] },
    ];
    const others = [
      { choices: [{ delta: { role: "assistant", content: null, tool_calls: [] } }] },
      { choices: [{ delta: {}, finish_reason: "stop" }] },
      { choices: [{ text: "" }] },
      { choices: [] },
      {},
    ];
    for (const chunk of outputs) expect(metered(frame(chunk)).hasOutput, JSON.stringify(chunk)).to.equal(true);
    for (const chunk of others) expect(metered(frame(chunk)).hasOutput, JSON.stringify(chunk)).to.equal(false);
  });

  it("does not believe a usage that is no pair of counts", () => {
    for (const bad of [-1, 1.5, "3", null, 2 ** 60]) {
      const meter = metered(word("a") + frame({ choices: [], usage: { prompt_tokens: bad, completion_tokens: 1 } }));
      expect(meter.read().estimated, String(bad)).to.equal(true);
    }
  });

  it("knows cached prompt tokens, at most the prompt", () => {
    const meter = metered(frame({ choices: [], ...usage(10, 1, { prompt_tokens_details: { cached_tokens: 8 } }) }));
    expect(meter.read().cachedInputTokens).to.equal(8);
    const wrong = metered(frame({ choices: [], ...usage(10, 1, { prompt_tokens_details: { cached_tokens: 80 } }) }));
    expect(wrong.read().cachedInputTokens).to.equal(10);
  });

  it("notices an error object inside a 200, and takes a null for none", () => {
    expect(metered(frame({ error: { message: "out of memory" } })).hasFailed).to.equal(true);
    expect(metered(frame({ error: null, choices: [] })).hasFailed).to.equal(false);
  });

  it("passes over what is no JSON", () => {
    expect(metered("data: {broken\n\ndata: 1\n\n: comment\n\n").read().usage.outputTokens).to.equal(0);
  });
});

describe("usageOfAnswer", () => {
  it("takes the answer's word, or estimates from its text, flagged", () => {
    expect(usageOfAnswer({ ...usage(3, 4) }, 9).usage).to.deep.equal({ inputTokens: 3, outputTokens: 4 });
    const estimated = usageOfAnswer({ choices: [{ message: { content: "12345678" } }] }, 9);
    expect(estimated.estimated).to.equal(true);
    expect(estimated.usage.inputTokens).to.equal(9);
    expect(estimated.usage.outputTokens).to.be.greaterThan(1);
  });
});

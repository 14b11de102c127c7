import { expect } from "chai";
import type { Engine, GenerationRequest } from "../../../../scripts/backend/engine.ts";
import { chatPrompt } from "../../../../scripts/backend/prompt.ts";
import { tokenizer } from "../../../../scripts/backend/tokenizer.ts";
import type { Token } from "../../../../scripts/backend/vocabulary.ts";

/** What one answer gave. */
export interface Written {
  readonly tokens: readonly Token[];
  readonly text: string;
  readonly cachedTokens: number;
}

export const question = chatPrompt([
  { role: "user", content: "How does a provider get paid for a job that it has done?" },
]);

export function generation(fields: Partial<GenerationRequest> = {}): GenerationRequest {
  return {
    prompt: question,
    maxTokens: 100,
    minTokens: 0,
    temperature: 1,
    topP: 1,
    seed: 1,
    signal: new AbortController().signal,
    onPrompt: () => undefined,
    ...fields,
  };
}

export async function write(engine: Engine, fields: Partial<GenerationRequest> = {}): Promise<Written> {
  const tokens: Token[] = [];
  let cachedTokens = -1;
  const onPrompt = (cached: number) => {
    cachedTokens = cached;
  };
  for await (const token of engine.generate(generation({ onPrompt, ...fields }))) tokens.push(token);
  return { tokens, text: tokenizer.decode(tokens), cachedTokens };
}

/** What must hold for every engine. Registers tests; `engine` is asked for in each. */
export function engineRules(engine: () => Engine): void {
  it("writes the same text for the same prompt and seed, alone or among others", async () => {
    const alone = await write(engine(), { seed: 7 });
    const among = await Promise.all([8, 7, 9].map((seed) => write(engine(), { seed })));
    expect(among[1]?.text).to.equal(alone.text);
  });

  it("writes another text for another seed and for another prompt", async () => {
    const texts = new Set<string>();
    for (const seed of [1, 2, 3]) texts.add((await write(engine(), { seed, minTokens: 40 })).text);
    const other = chatPrompt([{ role: "user", content: "Why?" }]);
    texts.add((await write(engine(), { prompt: other, minTokens: 40 })).text);
    expect(texts.size).to.equal(4);
  });

  it("writes the same text at temperature 0 whatever the seed", async () => {
    const [one, two] = [
      await write(engine(), { temperature: 0, seed: 1 }),
      await write(engine(), { temperature: 0, seed: 2 }),
    ];
    expect(one.text).to.equal(two.text);
    expect(one.text).to.not.equal("");
  });

  it("writes English words that count the same when they come back in a prompt", async () => {
    for (const temperature of [0, 1, 2]) {
      const { text, tokens } = await write(engine(), { temperature, minTokens: 100 });
      expect(text).to.match(/^[A-Z][A-Za-z ,.:\n]+$/);
      expect(tokenizer.encode(text)).to.deep.equal(tokens);
    }
  });

  it("stops at the most and goes on to the least number of tokens that is asked for", async () => {
    expect((await write(engine(), { maxTokens: 1 })).tokens).to.have.length(1);
    expect((await write(engine(), { maxTokens: 300, minTokens: 300 })).tokens).to.have.length(300);
    const natural = await write(engine(), { maxTokens: 5000 });
    expect(natural.tokens.length).to.be.below(5000);
  });

  it("says how much of a prompt it knew", async () => {
    const prompt = chatPrompt([
      { role: "user", content: `A prompt that only this test of ${engine().name} has, ${"long ".repeat(40)}` },
    ]);
    expect((await write(engine(), { prompt, maxTokens: 1 })).cachedTokens).to.be.below(16);
    const again = await write(engine(), { prompt, maxTokens: 1 });
    expect(again.cachedTokens).to.be.within(prompt.length - 17, prompt.length - 1);
  });

  it("stops at once when the signal fires, and throws its reason", async () => {
    const controller = new AbortController();
    const reason = new Error("gone");
    let seen = 0;
    let thrown: unknown;
    try {
      for await (const _token of engine().generate(
        generation({ maxTokens: 1000, minTokens: 1000, signal: controller.signal }),
      )) {
        seen += 1;
        if (seen === 3) controller.abort(reason);
      }
    } catch (error) {
      thrown = error;
    }
    expect([seen, thrown]).to.deep.equal([3, reason]);
  });

  it("does nothing for a request whose client has left before", async () => {
    const reason = new Error("gone");
    let thrown: unknown;
    try {
      await write(engine(), { signal: AbortSignal.abort(reason) });
    } catch (error) {
      thrown = error;
    }
    expect(thrown).to.equal(reason);
  });
}

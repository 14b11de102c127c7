import { expect } from "chai";
import fc from "fast-check";
import { type CompletionKind, parseCompletionRequest } from "../../../gateway/openai/completion-request.ts";
import { applySplices, arrayElements, memberOf, objectMembers, skipSpace } from "../../../gateway/openai/json-spans.ts";
import { upstreamBody } from "../../../gateway/openai/upstream-body.ts";

const parse = (body: unknown, kind: CompletionKind = "chat") =>
  parseCompletionRequest(kind, Buffer.from(typeof body === "string" ? body : JSON.stringify(body)));
const messages = [{ role: "user", content: "Hello" }];
const terms = { modelId: "served/model", maxTokens: 321 };

describe("spans in JSON text", () => {
  it("hold exactly the values that a parser finds, for any JSON and any spacing", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom(undefined, 1, "\t", "\n\r "),
        (value, space) => {
          const text = ` ${JSON.stringify(value, undefined, space)}\n`;
          const members = objectMembers(text, skipSpace(text, 0));
          expect(
            Object.fromEntries(
              members.map(({ key, valueStart, valueEnd }) => [key, JSON.parse(text.slice(valueStart, valueEnd))]),
            ),
          ).to.deep.equal(JSON.parse(text));
        },
      ),
    );
  });

  it("hold the elements of arrays", () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (value) => {
        const text = JSON.stringify(value, undefined, 1);
        expect(
          arrayElements(text, 0).map(({ start, end }) => JSON.parse(text.slice(start, end)) as unknown),
        ).to.deep.equal(JSON.parse(text));
      }),
    );
  });

  it("give nothing where there is no object, and the last of equal keys", () => {
    expect(objectMembers("[1]", 0)).to.have.length(0);
    expect(arrayElements("{}", 0)).to.have.length(0);
    const text = '{"a":1,"a":2}';
    const member = memberOf(text, 0, "a");
    expect(text.slice(member?.valueStart, member?.valueEnd)).to.equal("2");
  });

  it("are replaced without touching what is around them", () => {
    expect(
      applySplices("abcdef", [
        { start: 4, end: 5, text: "E" },
        { start: 1, end: 1, text: "-" },
      ]),
    ).to.equal("a-bcdEf");
  });
});

describe("the body that goes to a provider", () => {
  it("is the client's own, byte for byte, when the client set a bound and asked for usage", () => {
    const text =
      ' {"model":"m", "messages":[{"role":"user","content":"\\u00e9"}],\n"max_tokens":7,"stream":true,"stream_options":{"include_usage":true},"seed":12345678901234567890} ';
    expect(upstreamBody(parse(text), terms).toString()).to.equal(text);
  });

  it("gets a bound when the client set none, and keeps every other member's bytes", () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.string({ minLength: 1 }).map((key) => `x_${key}`),
          fc.jsonValue(),
        ),
        fc.boolean(),
        (extra, stream) => {
          const text = JSON.stringify({ ...extra, model: "m", messages, stream }, undefined, 1);
          const sent = upstreamBody(parse(text), terms).toString();
          const parsed = JSON.parse(sent) as Record<string, unknown>;
          expect(parsed).to.deep.equal({
            ...(JSON.parse(text) as object),
            max_tokens: 321,
            ...(stream ? { stream_options: { include_usage: true } } : {}),
          });
        },
      ),
    );
  });

  it("replaces a null bound, and any model by the one that is served", () => {
    const sent = JSON.parse(
      upstreamBody(parse({ model: "auto", messages, max_tokens: null }), terms).toString(),
    ) as object;
    expect(sent).to.deep.equal({ model: "served/model", messages, max_tokens: 321 });
  });

  it("keeps the client's other stream options", () => {
    const sent = JSON.parse(
      upstreamBody(
        parse({ model: "m", messages, stream: true, stream_options: { x: 1, include_usage: false } }),
        terms,
      ).toString(),
    ) as { stream_options: unknown };
    expect(sent.stream_options).to.deep.equal({ x: 1, include_usage: true });
  });

  it("leaves a request without stream as it is, where nothing is missing", () => {
    const text = JSON.stringify({ model: "m", messages, max_tokens: 1, stream_options: null });
    expect(upstreamBody(parse(text), terms).toString()).to.equal(text);
  });
});

describe("the affinity key of a body", () => {
  const keyOf = (fields: object): string | undefined => parse({ model: "m", messages, ...fields }).affinityKey;

  it("is the cache key, else the user, and no empty one", () => {
    expect(keyOf({ prompt_cache_key: "c", user: "u" })).to.equal("c");
    expect(keyOf({ prompt_cache_key: "", user: "u" })).to.equal("u");
    expect(keyOf({ user: "" })).to.equal(undefined);
  });

  it("takes up little room however long it is, as thousands are remembered, and stays different from all others", () => {
    const long = [`${"k".repeat(100_000)}a`, `${"k".repeat(100_000)}b`, "ä".repeat(513), "k".repeat(513)];
    const keys = long.map((user) => keyOf({ user }));
    for (const key of keys) expect(key?.length).to.be.at.most(512);
    expect(new Set(keys).size).to.equal(long.length);
    expect(keyOf({ user: "k".repeat(512) })).to.equal("k".repeat(512));
  });
});

describe("the beginning of a conversation, by which prefix_hash keeps it on one provider", () => {
  const beginning = (fields: object): string => parse({ model: "m", ...fields }, "text").routingText;

  it("is there also for a prompt of tokens: it would go to a random provider each time", () => {
    const prefix = Array.from({ length: 256 }, (_, index) => 1000 + index);
    expect(beginning({ prompt: [...prefix, 7] })).to.equal(beginning({ prompt: [...prefix, 8, 9] }));
    expect(beginning({ prompt: [1, 2, 3] })).to.not.equal(beginning({ prompt: [1, 2, 4] }));
    expect(beginning({ prompt: [1, 2, 3] })).to.not.equal(beginning({ prompt: [12, 3] }));
    expect(beginning({ prompt: [[1, 2], [3]] })).to.not.equal("");
    expect(beginning({ prompt: Array.from({ length: 5000 }, () => 123_456) })).to.have.length.at.most(1024);
  });
});

describe("what a request can cost", () => {
  it("is never reckoned below one token a byte of the body", () => {
    const text = JSON.stringify({ model: "m", messages: [{ role: "user", content: "日本語".repeat(100) }] });
    expect(parse(text).inputTokensBound).to.be.at.least(Buffer.byteLength(text));
  });

  it("is estimated by the bytes of the text, as a character of many bytes is more than a quarter of a token", () => {
    const chat = parse({ model: "m", messages: [{ role: "user", content: "日本語".repeat(100) }] });
    expect(chat.inputTokensEstimate).to.equal(225);
  });

  it("counts what is behind an address, whose bytes are not in the body", () => {
    const image = (url: string) => ({
      model: "m",
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }],
    });
    const remote = parse(image("https://x.example/a.png"));
    const inline = parse(image(`data:image/png;base64,${"A".repeat(100_000)}`));
    expect(remote.inputTokensBound).to.be.greaterThan(4000);
    expect(inline.inputTokensBound).to.be.within(100_000, 103_000);
  });

  it("takes the greatest of the bounds that backends may follow", () => {
    expect(parse({ model: "m", messages, max_tokens: 5, max_completion_tokens: 9 }).maxTokens).to.equal(9);
    expect(parse({ model: "m", messages, max_tokens: 5, n_predict: 50 }).maxTokens).to.equal(50);
    expect(parse({ model: "m", messages }).maxTokens).to.equal(undefined);
  });

  it("multiplies by the choices and by the prompts", () => {
    expect(parse({ model: "m", messages, n: 3 }).choices).to.equal(3);
    expect(parse({ model: "m", prompt: ["a", "b"], n: 2, best_of: 4 }, "text").choices).to.equal(8);
    expect(parse({ model: "m", prompt: [1, 2, 3] }, "text").choices).to.equal(1);
    expect(parse({ model: "m", prompt: [[1, 2], [3]] }, "text").choices).to.equal(2);
  });
});

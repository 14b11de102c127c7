import { expect } from "chai";
import * as fc from "fast-check";
import { readCompletionRequest } from "../../../provider/admission/completion-request.ts";
import { backendBody } from "../../../provider/upstream/backend-request.ts";
import { setMembers } from "../../../provider/upstream/json-members.ts";

/** JSON text of an object with blanks between its tokens. */
function spaced(value: object, blanks: readonly string[]): string {
  let next = 0;
  const blank = (): string => blanks[next++ % Math.max(1, blanks.length)] ?? "";
  const write = (item: unknown): string => {
    if (Array.isArray(item)) return `[${blank()}${item.map((one) => `${write(one)}${blank()}`).join(`,${blank()}`)}]`;
    if (typeof item === "object" && item !== null) {
      const members = Object.entries(item).map(
        ([key, one]) => `${JSON.stringify(key)}${blank()}:${blank()}${write(one)}${blank()}`,
      );
      return `{${blank()}${members.join(`,${blank()}`)}}`;
    }
    return JSON.stringify(item);
  };
  return `${blank()}${write(value)}${blank()}`;
}

describe("setMembers", () => {
  const value = fc.dictionary(fc.string({ unit: "grapheme", maxLength: 8 }), fc.jsonValue(), { maxKeys: 6 });
  const blanks = fc.array(fc.constantFrom("", " ", "\n", "\t\r\n  "), { maxLength: 5 });

  it("does what assignment to the parsed object would, for any object and any blanks", () => {
    const changes = fc.dictionary(fc.constantFrom("model", "stream_options", "a", "__proto__x"), fc.jsonValue(), {
      maxKeys: 3,
    });
    fc.assert(
      fc.property(value, changes, blanks, (object, change, spaces) => {
        const texts = new Map(Object.entries(change).map(([name, item]) => [name, JSON.stringify(item)]));
        const result = setMembers(Buffer.from(spaced(object, spaces)), texts).toString();
        const plain = JSON.parse(JSON.stringify({ ...object, ...change })) as unknown;
        expect(JSON.parse(result)).to.deep.equal(plain);
      }),
      { numRuns: 500 },
    );
  });

  it("leaves every other byte as it is: big integers, exponents, escapes and repeated names", () => {
    const json = '{ "seed" : 12345678901234567890, "t":1.0e0 , "model":"a", "x":"\\u00e9\\"}", "model" : "b" }';
    const result = setMembers(Buffer.from(json), new Map([["model", '"c"']])).toString();
    expect(result).to.equal(
      '{ "seed" : 12345678901234567890, "t":1.0e0 , "model":"c", "x":"\\u00e9\\"}", "model" : "c" }',
    );
  });

  it("finds a name that is written with escapes, and none inside strings or deeper objects", () => {
    const json = '{"\\u006dodel":"a","s":"\\"model\\":1","o":{"model":2},"l":[{"model":3}]}';
    const result = setMembers(Buffer.from(json), new Map([["model", "9"]])).toString();
    expect(result).to.equal('{"\\u006dodel":9,"s":"\\"model\\":1","o":{"model":2},"l":[{"model":3}]}');
  });
});

describe("backendBody", () => {
  const bodyOf = (value: object, model = "m", maxOutputTokens?: number): unknown => {
    const body = Buffer.from(JSON.stringify(value));
    return JSON.parse(backendBody(body, readCompletionRequest(body), { model, maxOutputTokens }).toString()) as unknown;
  };

  it("is the gateway's own bytes when nothing needs to change", () => {
    const body = Buffer.from('{ "model":"m","stream":true,"stream_options":{"include_usage":true} }');
    expect(backendBody(body, readCompletionRequest(body), { model: "m", maxOutputTokens: undefined })).to.equal(body);
  });

  it("asks a stream for its usage and keeps the other options, as what is not metered cannot be paid", () => {
    expect(bodyOf({ model: "m", stream: true })).to.deep.equal({
      model: "m",
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(bodyOf({ model: "m", stream: true, stream_options: { a: 1, include_usage: false } })).to.deep.equal({
      model: "m",
      stream: true,
      stream_options: { a: 1, include_usage: true },
    });
    expect(bodyOf({ model: "m" })).to.deep.equal({ model: "m" });
  });

  it("bounds the output where it is told to, also where the client wrote null", () => {
    expect(bodyOf({ model: "m", max_tokens: null }, "m", 7)).to.deep.equal({ model: "m", max_tokens: 7 });
    expect(bodyOf({ model: "m" }, "m", 7)).to.deep.equal({ model: "m", max_tokens: 7 });
  });

  it("names the model as the backend does", () => {
    expect(bodyOf({ model: "m", x: 1 }, "real")).to.deep.equal({ model: "real", x: 1 });
  });
});

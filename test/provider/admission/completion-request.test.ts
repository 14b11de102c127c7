import { expect } from "chai";
import * as fc from "fast-check";
import { readCompletionRequest } from "../../../provider/admission/completion-request.ts";
import { readJobHeaders, requestIdOf } from "../../../provider/admission/request-headers.ts";
import { ProviderError } from "../../../provider/errors.ts";

const read = (value: unknown) => readCompletionRequest(Buffer.from(JSON.stringify(value)));

describe("readCompletionRequest", () => {
  it("reads what admission needs and leaves the rest alone", () => {
    const body = { model: "a/é", stream: true, stream_options: { include_usage: true, x: 1 }, max_tokens: 9, foo: [1] };
    expect(read({ ...body, messages: [{ role: "user", content: "héllo" }] })).to.deep.equal({
      model: "a/é",
      stream: true,
      includesUsage: true,
      streamOptions: { include_usage: true, x: 1 },
      maxOutputTokens: 9,
      choices: 1,
      promptBytes: 6,
    });
  });

  it("counts the text of parts, of prompts and of lists of prompts", () => {
    const parts = [
      {
        role: "user",
        content: [
          { type: "text", text: "abc" },
          { type: "image_url", image_url: { url: "x" } },
        ],
      },
    ];
    expect(read({ model: "m", messages: parts }).promptBytes).to.equal(3);
    expect(read({ model: "m", prompt: ["ab", "c"] }).promptBytes).to.equal(3);
    expect(read({ model: "m", prompt: [[1, 2, 3]] }).promptBytes).to.equal(0);
  });

  it("takes the greatest of several bounds, as backends differ in which they follow, and none where none is set", () => {
    expect(read({ model: "m", max_tokens: 5, max_completion_tokens: 3 }).maxOutputTokens).to.equal(5);
    expect(read({ model: "m", max_tokens: 1, n_predict: 100_000 }).maxOutputTokens).to.equal(100_000);
    expect(read({ model: "m", max_tokens: null }).maxOutputTokens).to.equal(undefined);
  });

  it("counts every choice that is generated", () => {
    expect(read({ model: "m", messages: [], n: 3 }).choices).to.equal(3);
    expect(read({ model: "m", prompt: ["a", "b"], n: 2, best_of: 4 }).choices).to.equal(8);
    expect(read({ model: "m", prompt: [1, 2, 3] }).choices).to.equal(1);
    expect(read({ model: "m", prompt: [[1, 2], [3]] }).choices).to.equal(2);
  });

  it("refuses with 400 and the field's name what money or routing would trip over", () => {
    const bad: [unknown, string | null][] = [
      [[], null],
      ["x", null],
      [null, null],
      [{}, "model"],
      [{ model: 1 }, "model"],
      [{ model: "m", stream: "yes" }, "stream"],
      [{ model: "m", max_tokens: -1 }, "max_tokens"],
      [{ model: "m", max_tokens: 1.5 }, "max_tokens"],
      [{ model: "m", max_completion_tokens: "9" }, "max_completion_tokens"],
      [{ model: "m", n_predict: -1 }, "n_predict"],
      [{ model: "m", n: 0 }, "n"],
      [{ model: "m", best_of: 1.5 }, "best_of"],
    ];
    for (const [value, param] of bad) {
      try {
        read(value);
        expect.fail(JSON.stringify(value));
      } catch (error) {
        expect(error).to.be.instanceOf(ProviderError);
        expect((error as ProviderError).code).to.equal("invalid_request");
        expect((error as ProviderError).param).to.equal(param);
      }
    }
  });

  it("ends in a refusal or a request for any bytes, however deep they nest", () => {
    const deep = `{"model":"m","messages":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
    for (const body of [Buffer.from(deep), Buffer.from([0xff, 0xfe]), Buffer.alloc(0)]) {
      try {
        readCompletionRequest(body);
      } catch (error) {
        expect(error).to.be.instanceOf(ProviderError);
      }
    }
    fc.assert(
      fc.property(fc.json(), (json) => {
        try {
          readCompletionRequest(Buffer.from(json));
        } catch (error) {
          expect(error).to.be.instanceOf(ProviderError);
        }
      }),
    );
  });
});

describe("readJobHeaders", () => {
  const good = {
    "x-t4t-job-id": `0x${"AB".repeat(32)}`,
    "x-t4t-authorization": `1800000000.0x${"cd".repeat(65)}`,
    "x-t4t-block-number": "12",
  };

  it("reads them, with the id in lower case so that one job has one name", () => {
    expect(readJobHeaders(good)).to.deep.equal({
      jobId: `0x${"ab".repeat(32)}`,
      expiresAt: 1_800_000_000,
      signature: `0x${"cd".repeat(65)}`,
      blockNumber: 12n,
    });
    const { "x-t4t-block-number": _block, ...without } = good;
    expect(readJobHeaders(without).blockNumber).to.equal(undefined);
  });

  it("refuses each when it is malformed, before anything is asked of the chain", () => {
    const cases: [Record<string, string | string[]>, string][] = [
      [{ "x-t4t-job-id": "0x12" }, "invalid_request"],
      [{ "x-t4t-job-id": [good["x-t4t-job-id"], good["x-t4t-job-id"]] }, "invalid_request"],
      [{ "x-t4t-authorization": "1800000000" }, "invalid_authorization"],
      [{ "x-t4t-authorization": "x.0xab" }, "invalid_authorization"],
      [{ "x-t4t-block-number": "-1" }, "invalid_request"],
      [{ "x-t4t-block-number": "9".repeat(30) }, "invalid_request"],
    ];
    for (const [change, code] of cases) {
      expect(() => readJobHeaders({ ...good, ...change }))
        .to.throw(ProviderError)
        .with.property("code", code);
    }
  });

  it("echoes only a short printable request id, so that nothing foreign gets into logs and headers", () => {
    const mint = (): string => "minted";
    expect(requestIdOf({ "x-request-id": "req-1" }, mint)).to.equal("req-1");
    for (const id of ["", "a b", "é", "x".repeat(129)])
      expect(requestIdOf({ "x-request-id": id }, mint)).to.equal("minted");
    expect(requestIdOf({}, mint)).to.equal("minted");
  });
});

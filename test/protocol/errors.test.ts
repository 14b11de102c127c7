import { expect } from "chai";
import { type ErrorCode, errorTable, T4tError } from "../../protocol/errors.ts";

const codes = Object.keys(errorTable) as ErrorCode[];

describe("errors that clients see", () => {
  it("all have the four keys of OpenAI's error object, whatever is known of them", () => {
    for (const code of codes) {
      expect(new T4tError(code, "words").toBody()).to.deep.equal({
        error: { message: "words", type: errorTable[code].type, param: null, code },
      });
    }
    expect(new T4tError("invalid_value", "words", { param: "n" }).toBody().error.param).to.equal("n");
  });

  it("carry a Retry-After of 1 to 60 whole seconds, as SDKs obey or ignore any other value", () => {
    const headerFor = (retryAfterSeconds?: number) =>
      new T4tError(
        "server_is_overloaded",
        "words",
        retryAfterSeconds === undefined ? {} : { retryAfterSeconds },
      ).toHeaders()["retry-after"];
    expect(headerFor()).to.equal("1");
    expect(headerFor(0)).to.equal("1");
    expect(headerFor(2.1)).to.equal("3");
    expect(headerFor(3600)).to.equal("60");
  });

  it("say Retry-After for every 429 rate limit and 503, and for nothing else", () => {
    for (const code of codes) {
      const { status } = errorTable[code];
      const mayReturn = status === 503 || code === "rate_limit_exceeded";
      expect("retry-after" in new T4tError(code, "words").toHeaders(), code).to.equal(mayReturn);
    }
  });

  it("tell SDKs not to try again where a second try cannot help", () => {
    const told = codes.filter((code) => new T4tError(code, "words").toHeaders()["x-should-retry"] === "false");
    expect(told).to.have.members([
      "model_not_found",
      "insufficient_escrow_balance",
      "insufficient_quota",
      "capacity_timeout",
    ]);
  });

  it("close the connection where the request was not read, or the server goes", () => {
    const closing = codes.filter((code) => new T4tError(code, "words").toHeaders().connection === "close");
    expect(closing).to.have.members(["request_too_large", "server_draining"]);
  });

  it("keep their cause apart from what is shown", () => {
    const error = new T4tError("upstream_error", "public words", { cause: new Error("http://10.0.0.1 secret") });
    expect(JSON.stringify(error.toBody())).to.not.include("secret");
    expect((error.cause as Error).message).to.include("secret");
  });
});

import { expect } from "chai";
import fc from "fast-check";
import { publicMessage } from "../../../gateway/relay/public-message.ts";

describe("a provider's words, shown to a client", () => {
  it("keep their sense", () => {
    expect(publicMessage("max_tokens is too large: 5000 > 4096", "x")).to.equal("max_tokens is too large: 5000 > 4096");
  });

  it("lose addresses, keys and markup", () => {
    const words =
      "see http://10.0.0.1:8000/v1?k=1 or 192.168.1.7:9, key sk-abcdefgh12345678, Authorization: Bearer abc.def <script>";
    const shown = publicMessage(words, "x");
    expect(shown).to.not.match(/10\.0|192\.168|sk-|abc\.def|</);
  });

  it("are one line of bounded length, whatever they were", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        const shown = publicMessage(value, "fallback");
        expect(shown.length).to.be.within(1, 301);
        expect(shown).to.not.match(/[\n\r<]/);
      }),
    );
    expect(publicMessage("x".repeat(10_000), "f")).to.have.length(301);
    expect(publicMessage("\n\r\u2028", "fallback")).to.equal("fallback");
  });
});

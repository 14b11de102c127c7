import { expect } from "chai";
import fc from "fast-check";
import { publicMessage } from "../../../gateway/relay/public-message.ts";

describe("a provider's words, shown to a client", () => {
  it("keep their sense", () => {
    expect(publicMessage("max_tokens is too large: 5000 > 4096", "x")).to.equal("max_tokens is too large: 5000 > 4096");
  });

  it("keep comparisons, type names and tags as they were written, as JSON is no page", () => {
    for (const words of [
      "temperature must be 0 <= t < 2, got 5",
      "expected list<string> or Map<string, int>",
      "unknown token <|im_start|> or </think>",
    ]) {
      expect(publicMessage(words, "x")).to.equal(words);
    }
  });

  it("lose addresses and keys, also those taken apart by invisible marks, and marks that turn text around", () => {
    const words =
      "see <http://10.0.0.1:8000/v1?k=1> or 192.168.1.7:9, key s\u200bk-abcdefgh12345678, Authorization: Bearer abc.def \u202egnp";
    expect(publicMessage(words, "x")).to.equal("see <[address]> or [address], key [key], Authorization: [key] gnp");
  });

  it("are one line of bounded length, whatever they were", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        const shown = publicMessage(value, "fallback");
        expect(shown.length).to.be.within(1, 301);
        expect(shown).to.not.match(/[\n\r\p{Cc}\p{Cf}]/u);
      }),
    );
    expect(publicMessage("x".repeat(10_000), "f")).to.have.length(301);
    expect(publicMessage("\n\r\u2028", "fallback")).to.equal("fallback");
  });
});

import { expect } from "chai";
import * as fc from "fast-check";
import type { Hex } from "viem";
import { decodeAuthorization, decodeDelivered, encodeAuthorization, encodeDelivered } from "../../protocol/wire.ts";

const hex = (minBytes: number, maxBytes: number): fc.Arbitrary<Hex> =>
  fc
    .uint8Array({ minLength: minBytes, maxLength: maxBytes })
    .map((bytes): Hex => `0x${Buffer.from(bytes).toString("hex")}`);
const tokens = fc.maxSafeNat();

describe("the authorisation header", () => {
  it("reads back what was written", () => {
    fc.assert(
      fc.property(fc.nat({ max: 999_999_999_999 }), hex(1, 200), (expiresAt, signature) => {
        expect(decodeAuthorization(encodeAuthorization({ expiresAt, signature }))).to.deep.equal({
          expiresAt,
          signature,
        });
      }),
    );
  });

  it("never throws and never accepts half a byte, whatever a stranger sends", () => {
    for (const text of [
      undefined,
      "",
      "1",
      "1.",
      "1.0x",
      "1.0xa",
      "1.0xabc",
      "-1.0xab",
      "1e3.0xab",
      "1.0xzz",
      " 1.0xab",
      "1.0xab ",
      "1.0xab\n",
    ]) {
      expect(decodeAuthorization(text), String(text)).to.equal(undefined);
    }
    expect(decodeAuthorization(`1.0x${"ab".repeat(8192)}`)).to.not.equal(undefined);
    expect(decodeAuthorization(`1.0x${"ab".repeat(8193)}`)).to.equal(undefined);
    fc.assert(
      fc.property(fc.string(), (text) => {
        decodeAuthorization(text);
      }),
    );
  });
});

describe("usage statements and receipts", () => {
  it("read back what was written", () => {
    fc.assert(
      fc.property(tokens, tokens, hex(32, 32), hex(1, 200), (inputTokens, outputTokens, responseHash, signature) => {
        const text = encodeDelivered({ inputTokens, outputTokens }, responseHash, signature);
        expect(decodeDelivered(text)).to.deep.equal({ inputTokens, outputTokens, responseHash, signature });
      }),
    );
  });

  it("are refused when a count is negative, fractional or beyond exact integers, so that money is never computed from it", () => {
    const good = { inputTokens: 1, outputTokens: 2, responseHash: `0x${"ab".repeat(32)}`, signature: "0xabcd" };
    expect(decodeDelivered(JSON.stringify(good))).to.deep.equal(good);
    for (const bad of [-1, 0.5, 2 ** 53, "1", null, undefined]) {
      expect(decodeDelivered(JSON.stringify({ ...good, inputTokens: bad })), String(bad)).to.equal(undefined);
      expect(decodeDelivered(JSON.stringify({ ...good, outputTokens: bad })), String(bad)).to.equal(undefined);
    }
    expect(decodeDelivered('{"inputTokens":1e400}')).to.equal(undefined);
  });

  it("are refused when hash or signature are not whole bytes of the right length", () => {
    const good = { inputTokens: 1, outputTokens: 2, responseHash: `0x${"ab".repeat(32)}`, signature: "0xabcd" };
    for (const responseHash of ["0x", "ab".repeat(33), `0x${"ab".repeat(31)}`, `0x${"zz".repeat(32)}`, 1]) {
      expect(decodeDelivered(JSON.stringify({ ...good, responseHash }))).to.equal(undefined);
    }
    for (const signature of ["0x", "0xa", "0xabc", "abcd", `0x${"ab".repeat(8193)}`, {}]) {
      expect(decodeDelivered(JSON.stringify({ ...good, signature }))).to.equal(undefined);
    }
  });

  it("never throw on text that is not what was expected", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(decodeDelivered(text)).to.equal(undefined);
      }),
    );
  });
});

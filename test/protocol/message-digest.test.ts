import { expect } from "chai";
import * as fc from "fast-check";
import { getAddress, type Hex, hashTypedData } from "viem";
import {
  acknowledgementDigest,
  authorizationDigest,
  providerStatusDigest,
  receiptDigest,
  usageStatementDigest,
} from "../../protocol/message-digest.ts";
import {
  acknowledgementTypedData,
  authorizationTypedData,
  providerStatusTypedData,
  receiptTypedData,
  usageStatementTypedData,
} from "../../protocol/messages.ts";

const hex = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((value): Hex => `0x${Buffer.from(value).toString("hex")}`);
const address = hex(20).map((value) => getAddress(value));
const count = fc.maxSafeNat();
const domain = fc.record({ chainId: fc.integer({ min: 1, max: 2 ** 40 }), escrow: address });

describe("message digests", () => {
  it("are those of EIP-712 for every kind of message, any content and any domain", () => {
    const delivered = fc.record({
      jobId: hex(32),
      provider: address,
      usage: fc.record({ inputTokens: count, outputTokens: count }),
      responseHash: hex(32),
    });
    fc.assert(
      fc.property(domain, delivered, count, (where, message, time) => {
        const { jobId, provider, responseHash: hash } = message;
        expect(receiptDigest(where, message)).to.equal(hashTypedData(receiptTypedData(where, message)));
        expect(usageStatementDigest(where, message)).to.equal(hashTypedData(usageStatementTypedData(where, message)));
        const acknowledgement = { jobId, provider, requestHash: hash };
        expect(acknowledgementDigest(where, acknowledgement)).to.equal(
          hashTypedData(acknowledgementTypedData(where, acknowledgement)),
        );
        const authorization = { jobId, requestHash: hash, expiresAt: time };
        expect(authorizationDigest(where, authorization)).to.equal(
          hashTypedData(authorizationTypedData(where, authorization)),
        );
        const status = { provider, issuedAt: time, bodyHash: hash };
        expect(providerStatusDigest(where, status)).to.equal(hashTypedData(providerStatusTypedData(where, status)));
      }),
    );
  });

  it("refuse what is no word, so that no two messages share a digest by accident", () => {
    const where = { chainId: 1, escrow: "0x00000000000000000000000000000000000000E5" } as const;
    const word: Hex = `0x${"11".repeat(32)}`;
    const message = { jobId: word, requestHash: word, expiresAt: 1 };
    for (const expiresAt of [-1, 0.5, 2 ** 53]) {
      expect(() => authorizationDigest(where, { ...message, expiresAt })).to.throw(RangeError);
    }
    expect(() => authorizationDigest(where, { ...message, jobId: `${word}22` })).to.throw(RangeError);
  });
});

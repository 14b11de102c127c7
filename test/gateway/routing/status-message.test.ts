import { expect } from "chai";
import type { Hex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { maxStatusSkewMs, readSignedStatus, StatusRejectedError } from "../../../gateway/routing/status-message.ts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { type MessageDomain, providerStatusTypedData } from "../../../protocol/messages.ts";
import { addressOf } from "./support/registry.ts";

const operator = privateKeyToAccount(`0x${"11".repeat(32)}`);
const provider = addressOf(1);
const domain: MessageDomain = { chainId: 1, escrow: addressOf(99) };
const nowMs = 1_700_000_000_000;
const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

const status = (change: object = {}): string =>
  JSON.stringify({
    provider,
    issuedAt: nowMs,
    draining: false,
    maxConcurrentJobs: 2,
    running: 0,
    models: [{ model: "m", generation: "g", running: 0, maxInputTps: 100 }],
    ...change,
  });

/** Signed by viem, whose signatures vouch for our own reading of them. */
async function signed(body: string, of: MessageDomain = domain): Promise<{ body: string; signature: Hex }> {
  const { issuedAt } = JSON.parse(body) as { issuedAt: number };
  const message = { provider, issuedAt, bodyHash: bodyHash(body) };
  return { body, signature: await operator.signTypedData(providerStatusTypedData(of, message)) };
}

function faultOf(text: unknown, newerThan = 0): string | undefined {
  try {
    readSignedStatus(JSON.stringify(text), { domain, provider, operator: operator.address, nowMs, newerThan });
    return undefined;
  } catch (error) {
    if (error instanceof StatusRejectedError) return error.fault;
    throw error;
  }
}

describe("a provider's signed status", () => {
  it("is believed when the operator signed exactly its bytes", async () => {
    expect(faultOf(await signed(status()))).to.equal(undefined);
    const { signature } = await signed(status());
    expect(faultOf({ body: status({ running: 1 }), signature })).to.equal("wrong_signer");
    expect(faultOf({ body: ` ${status()}`, signature })).to.equal("wrong_signer");
  });

  it("is not believed when it was signed for another chain or another escrow", async () => {
    for (const other of [
      { ...domain, chainId: 2 },
      { ...domain, escrow: addressOf(98) },
    ])
      expect(faultOf(await signed(status(), other))).to.equal("wrong_signer");
  });

  it("is not believed with the other signature that can be made of its own, nor with one of another form", async () => {
    const { body, signature } = await signed(status());
    const s = order - BigInt(`0x${signature.slice(66, 130)}`);
    const v = signature.endsWith("1b") ? "1c" : "1b";
    const twin = `${signature.slice(0, 66)}${s.toString(16).padStart(64, "0")}${v}`;
    expect(faultOf({ body, signature: twin })).to.equal("wrong_signer");
    expect(faultOf({ body, signature: signature.slice(0, 130) })).to.equal("malformed");
    expect(faultOf({ body, signature: `${signature}00` })).to.equal("malformed");
  });

  it("is held against our clock on both sides, and against the newest one believed", async () => {
    for (const [issuedAt, fault] of [
      [nowMs + maxStatusSkewMs, undefined],
      [nowMs + maxStatusSkewMs + 1, "clock_skew"],
      [nowMs - maxStatusSkewMs - 1, "clock_skew"],
      [Number.MAX_SAFE_INTEGER, "clock_skew"],
    ] as const)
      expect(faultOf(await signed(status({ issuedAt })))).to.equal(fault);
    expect(faultOf(await signed(status()), nowMs)).to.equal("not_newer");
  });

  it("is bounded in its text, its models and its numbers", async () => {
    const model = { model: "m", generation: "g", running: 0 };
    for (const change of [
      { models: Array.from({ length: 65 }, () => model) },
      { models: [{ ...model, model: "m".repeat(257) }] },
      { models: [{ ...model, running: -1 }] },
      { models: [{ ...model, queuedInputTokens: "9" }] },
      { issuedAt: nowMs + 0.5 },
      { padding: "x".repeat(65_536) },
    ])
      expect(faultOf({ body: status(change), signature: `0x${"00".repeat(65)}` })).to.equal("malformed");
    expect(faultOf("status")).to.equal("malformed");
  });
});

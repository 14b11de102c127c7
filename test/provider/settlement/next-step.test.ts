import { expect } from "chai";
import * as fc from "fast-check";
import type { Hex } from "viem";
import { settlementFor } from "../../../protocol/money.ts";
import { isTerminal, jobStages, type ProviderJob, pricesOf } from "../../../provider/settlement/job.ts";
import {
  nextStep,
  receiptPayment,
  type SettlementPolicy,
  unsignedClaim,
} from "../../../provider/settlement/next-step.ts";
import { judgeReceipt } from "../../../provider/settlement/receipts.ts";
import { acceptedJob } from "../support/provider-jobs.ts";

const hash: Hex = `0x${"22".repeat(32)}`;
const nowMs = 1_800_000_000_000;
const policy: SettlementPolicy = { receiptGraceMs: 60_000, settleMarginSeconds: 10, unfetchedDeclineMs: 30_000 };

const posted = acceptedJob(nowMs, { jobId: `0x${"11".repeat(32)}`, stage: "posted" });
const usage = { inputTokens: 60, outputTokens: 40 };
const delivered: ProviderJob = {
  ...posted,
  stage: "delivered",
  delivery: { usage, responseHash: hash, statement: "0x12", estimated: false, partial: false, at: nowMs },
};
const receipt = { usage, responseHash: hash, signature: "0x34" } as const;

describe("nextStep", () => {
  it("declines a posted job that no request came for, after its time and not before", () => {
    expect(nextStep(posted, nowMs, policy)).to.deep.equal({ kind: "wait", untilMs: nowMs + 30_000 });
    expect(nextStep(posted, nowMs + 30_000, policy)).to.deep.equal({ kind: "act", action: "decline" });
  });

  it("leaves a running stream alone", () => {
    expect(nextStep({ ...posted, stage: "accepted" }, nowMs + 10 ** 9, policy)).to.deep.equal({ kind: "none" });
  });

  it("completes with a receipt at once", () => {
    expect(nextStep({ ...delivered, stage: "receipted", receipt }, nowMs, policy)).to.deep.equal({
      kind: "act",
      action: "complete",
    });
  });

  it("claims unsigned after the grace time, or at once when the client asked for its money", () => {
    expect(nextStep(delivered, nowMs, policy)).to.deep.equal({ kind: "wait", untilMs: nowMs + 60_000 });
    expect(nextStep(delivered, nowMs + 60_000, policy)).to.deep.equal({ kind: "act", action: "claim" });
    expect(nextStep({ ...delivered, claimNow: true }, nowMs, policy)).to.deep.equal({ kind: "act", action: "claim" });
  });

  it("claims the better of the client's lower receipt and the unsigned part", () => {
    const low = { ...receipt, usage: { inputTokens: 60, outputTokens: 30 } };
    const better: ProviderJob = { ...delivered, lowReceipt: low };
    expect(nextStep(better, nowMs + 60_000, policy)).to.deep.equal({ kind: "act", action: "complete" });
    const worse: ProviderJob = { ...delivered, lowReceipt: { ...low, usage: { inputTokens: 1, outputTokens: 1 } } };
    expect(nextStep(worse, nowMs + 60_000, policy)).to.deep.equal({ kind: "act", action: "claim" });
  });

  it("gives a delivered job back when nothing can be claimed, so that it never runs into a slash", () => {
    const nothing: ProviderJob = { ...delivered, unsignedLimit: "0" };
    expect(nextStep(nothing, nowMs + 60_000, policy)).to.deep.equal({ kind: "act", action: "decline" });
  });

  it("acts on every open job before its deadline, whatever else it waits for", () => {
    const job = fc.record({
      stage: fc.constantFrom(
        ...jobStages.filter((stage) => !isTerminal(stage) && stage !== "accepted" && stage !== "settling"),
      ),
      left: fc.integer({ min: 0, max: 100_000 }),
      graceMs: fc.nat({ max: 10_000_000 }),
      unfetchedMs: fc.nat({ max: 10_000_000 }),
    });
    fc.assert(
      fc.property(job, ({ stage, left, graceMs, unfetchedMs }) => {
        const own = { receiptGraceMs: graceMs, settleMarginSeconds: 10, unfetchedDeclineMs: unfetchedMs };
        const deadline = nowMs / 1000 + left;
        const step = nextStep({ ...delivered, stage, deadline, receipt }, (deadline - 10) * 1000, own);
        expect(step.kind).to.equal("act");
      }),
    );
  });

  it("does nothing for a job that has ended, at any time", () => {
    for (const stage of jobStages.filter(isTerminal)) {
      expect(nextStep({ ...delivered, stage }, nowMs * 2, policy)).to.deep.equal({ kind: "none" });
    }
  });

  it("waits out the pause after a failed attempt", () => {
    const job: ProviderJob = { ...delivered, stage: "receipted", receipt, retryAt: nowMs + 5_000 };
    expect(nextStep(job, nowMs, policy)).to.deep.equal({ kind: "wait", untilMs: nowMs + 5_000 });
  });
});

describe("unsignedClaim", () => {
  it("is bounded by the true cost, the client's limit and the locked payment", () => {
    const amount = fc.bigInt({ min: 0n, max: 10n ** 12n });
    fc.assert(
      fc.property(
        amount,
        amount,
        fc.nat({ max: 10 ** 6 }),
        fc.nat({ max: 10 ** 6 }),
        (limit, locked, inputTokens, outputTokens) => {
          const used = { inputTokens, outputTokens };
          const job: ProviderJob = {
            ...delivered,
            unsignedLimit: String(limit),
            maxPayment: String(locked),
            ...(delivered.delivery === undefined ? {} : { delivery: { ...delivered.delivery, usage: used } }),
          };
          const claim = unsignedClaim(job);
          expect(claim <= limit && claim <= settlementFor(pricesOf(job), used, locked)).to.equal(true);
          expect(claim === limit || claim === settlementFor(pricesOf(job), used, locked)).to.equal(true);
        },
      ),
    );
  });

  it("is nothing for what was not delivered", () => {
    expect(unsignedClaim(posted)).to.equal(0n);
  });
});

describe("judgeReceipt", () => {
  it("takes the usage that we stated, or more", () => {
    expect(judgeReceipt(delivered, receipt)).to.equal("enough");
    expect(judgeReceipt(delivered, { ...receipt, usage: { inputTokens: 61, outputTokens: 40 } })).to.equal("enough");
  });

  it("takes no receipt for less, in either count", () => {
    expect(judgeReceipt(delivered, { ...receipt, usage: { inputTokens: 59, outputTokens: 40 } })).to.equal("low");
    expect(judgeReceipt(delivered, { ...receipt, usage: { inputTokens: 600, outputTokens: 39 } })).to.equal("low");
  });

  it("takes other counts that pay as much where our own were only estimated", () => {
    const estimated: ProviderJob = {
      ...delivered,
      ...(delivered.delivery === undefined ? {} : { delivery: { ...delivered.delivery, estimated: true } }),
    };
    const other = { ...receipt, usage: { inputTokens: 30, outputTokens: 70 } };
    expect(judgeReceipt(estimated, other)).to.equal("enough");
    expect(receiptPayment(estimated, other)).to.equal(100n);
    expect(judgeReceipt(estimated, { ...receipt, usage: { inputTokens: 30, outputTokens: 69 } })).to.equal("low");
  });

  it("knows a receipt that came before, and one that comes too early or too late", () => {
    expect(judgeReceipt({ ...delivered, stage: "receipted", receipt }, receipt)).to.equal("repeated");
    expect(judgeReceipt({ ...delivered, stage: "settled", receipt }, receipt)).to.equal("repeated");
    expect(judgeReceipt({ ...delivered, stage: "settled" }, receipt)).to.equal("closed");
    expect(judgeReceipt({ ...posted, stage: "accepted" }, receipt)).to.equal("streaming");
    for (const stage of ["declining", "declined", "forfeited"] as const) {
      expect(judgeReceipt({ ...delivered, stage }, receipt)).to.equal("closed");
    }
    expect(judgeReceipt({ ...posted, stage: "lost" }, receipt)).to.equal("closed");
  });

  it("takes a receipt for what others ended, as the chain may take that end back", () => {
    expect(judgeReceipt({ ...delivered, stage: "lost" }, receipt)).to.equal("enough");
    expect(judgeReceipt({ ...delivered, stage: "lost", receipt }, receipt)).to.equal("repeated");
  });
});

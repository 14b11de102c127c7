import { expect } from "chai";
import fc from "fast-check";
import type { JobOnChain } from "../../../gateway/jobs/escrow-calls.ts";
import { type AttemptDocument, isTerminalState } from "../../../gateway/jobs/job-document.ts";
import { defaultWindows, type JanitorStep, nextStep } from "../../../gateway/jobs/next-step.ts";

const windows = { ...defaultWindows, ackWindow: 30, responseWindow: 60, slashes: true };
const postedAt = 1_000_000;
const deadline = postedAt + 900;
const provider = `0x${"33".repeat(20)}` as const;

const attempt: AttemptDocument = {
  jobId: `0x${"22".repeat(32)}`,
  nonce: "1",
  state: "abandoned",
  modelId: "m",
  candidates: [provider],
  maxPayment: "1000",
  deadline,
  provider,
  sent: true,
};
const receipt = {
  usage: { inputTokens: 1, outputTokens: 1 },
  responseHash: `0x${"44".repeat(32)}`,
  signature: "0x55",
} as const;
const acknowledged = { acknowledgement: "0x66", requestHash: `0x${"77".repeat(32)}` } as const;

function step(
  change: Partial<AttemptDocument>,
  status: JobOnChain["status"],
  now: number,
  since = postedAt,
): JanitorStep {
  return nextStep({ ...attempt, ...change }, { status, provider, since, deadline }, now, now * 1000, windows);
}

describe("the next step for a job that was given up", () => {
  it("is to take over an end that the chain knows", () => {
    expect(step({}, "Completed", postedAt)).to.deep.equal({ kind: "ended", state: "settled" });
    expect(step({}, "Declined", postedAt)).to.deep.equal({ kind: "ended", state: "declined" });
    expect(step({}, "Slashed", deadline + 500)).to.deep.equal({ kind: "ended", state: "slashed" });
  });

  it("is to ask for the money as soon as the acknowledgement window is over", () => {
    expect(step({}, "Open", postedAt + 30)).to.deep.equal({ kind: "wait", until: postedAt + 31 });
    expect(step({}, "Open", postedAt + 31)).to.deep.equal({ kind: "request_cancel" });
  });

  it("is to leave a provider that was never asked the time to give the job back by itself: that costs us nothing", () => {
    const { sent: _sent, ...unsent } = attempt;
    const at = (now: number) =>
      nextStep(unsent, { status: "Open", provider, since: postedAt, deadline }, now, now * 1000, windows);
    expect(at(postedAt + 31)).to.deep.equal({ kind: "wait", until: postedAt + 76 });
    expect(at(postedAt + 76)).to.deep.equal({ kind: "request_cancel" });
  });

  it("is to take the money back when the request was not answered", () => {
    const since = postedAt + 31;
    expect(step({}, "CancelRequested", since + 60, since)).to.deep.equal({ kind: "wait", until: since + 61 });
    expect(step({}, "CancelRequested", since + 61, since)).to.deep.equal({ kind: "finalize_cancel" });
  });

  it("is to wait for the deadline of a provider that shows on chain that it works", () => {
    expect(step({}, "Acknowledged", postedAt + 500)).to.deep.equal({ kind: "wait", until: deadline + 1 });
  });

  it("is to slash only a provider that broke its own signed word, and only after the deadline", () => {
    expect(step({ ...acknowledged, fault: true }, "Open", deadline + 1)).to.deep.equal({ kind: "slash" });
    expect(step({ ...acknowledged }, "Open", deadline + 1), "the client had gone").to.deep.equal({ kind: "expire" });
    expect(step({ fault: true }, "Open", deadline + 1), "no proof").to.deep.equal({ kind: "expire" });
  });

  it("is to wait for the deadline of such a provider, as a cancel before would let it go", () => {
    for (const now of [postedAt + 40, deadline]) {
      expect(step({ ...acknowledged, fault: true }, "Open", now)).to.deep.equal({ kind: "wait", until: deadline + 1 });
    }
    const since = postedAt + 31;
    expect(
      step({ ...acknowledged, fault: true }, "CancelRequested", since + 61, since),
      "asked for already",
    ).to.deep.equal({
      kind: "finalize_cancel",
    });
  });

  it("is the money alone where the operator wants no slash", () => {
    const proven = { ...attempt, ...acknowledged, fault: true as const };
    const at = (now: number) =>
      nextStep(proven, { status: "Open", provider, since: postedAt, deadline }, now, now * 1000, {
        ...windows,
        slashes: false,
      });
    expect(at(postedAt + 40)).to.deep.equal({ kind: "request_cancel" });
    expect(at(deadline + 1)).to.deep.equal({ kind: "expire" });
  });

  it("is to hand over a receipt until the provider has it, then to give it time to settle", () => {
    expect(step({ receipt }, "Open", postedAt + 40)).to.deep.equal({ kind: "hand_over_receipt" });
    expect(step({ receipt, receiptTaken: true }, "Open", postedAt + 40)).to.deep.equal({
      kind: "wait",
      until: deadline + 120,
    });
    expect(step({ receipt, receiptTaken: true }, "Open", deadline + 1)).to.deep.equal({
      kind: "wait",
      until: deadline + 120,
    });
    expect(step({ receipt, receiptTaken: true, ...acknowledged, fault: true }, "Open", deadline + 120)).to.deep.equal({
      kind: "expire",
    });
  });

  it("is to agree on the part that was delivered, for a while, before anything else", () => {
    const partial = { atMost: { inputTokens: 1, outputTokens: 1 }, at: postedAt * 1000 };
    expect(step({ partial }, "Open", postedAt + 10)).to.deep.equal({ kind: "agree_on_part" });
    expect(step({ partial }, "Open", postedAt + 31)).to.deep.equal({ kind: "request_cancel" });
  });

  it("always exists: no job is ever left without an end", () => {
    const statuses = [
      "Open",
      "Acknowledged",
      "CancelRequested",
      "Completed",
      "Declined",
      "Cancelled",
      "Expired",
      "Slashed",
    ] as const;
    const states = ["posting", "posted", "acknowledged", "delivered", "abandoned"] as const;
    fc.assert(
      fc.property(
        fc.constantFrom(...statuses),
        fc.constantFrom(...states),
        fc.record({
          receipt: fc.boolean(),
          taken: fc.boolean(),
          fault: fc.boolean(),
          slashes: fc.boolean(),
          acknowledged: fc.boolean(),
          partial: fc.boolean(),
          sent: fc.boolean(),
        }),
        fc.integer({ min: 0, max: 5000 }),
        (status, state, has, elapsed) => {
          const { sent: _sent, ...bare } = attempt;
          const document: AttemptDocument = {
            ...bare,
            state,
            ...(has.sent ? { sent: true as const } : {}),
            ...(has.receipt ? { receipt } : {}),
            ...(has.taken ? { receiptTaken: true as const } : {}),
            ...(has.fault ? { fault: true as const } : {}),
            ...(has.acknowledged ? acknowledged : {}),
            ...(has.partial ? { partial: { atMost: { inputTokens: 1, outputTokens: 1 }, at: postedAt * 1000 } } : {}),
          };
          // However long it is waited for, following the steps ends the job: the chain's own answers are played here.
          let job: JobOnChain = { status, provider, since: postedAt, deadline };
          let now = postedAt + elapsed;
          for (let turns = 0; turns < 50; turns += 1) {
            const next = nextStep(document, job, now, now * 1000, { ...windows, slashes: has.slashes });
            switch (next.kind) {
              case "ended":
                expect(isTerminalState(next.state)).to.equal(true);
                return;
              case "wait":
                expect(next.until, "a wait that is over is no wait").to.be.greaterThan(now);
                now = next.until;
                break;
              case "request_cancel":
                expect(job.status).to.equal("Open");
                expect(now).to.be.at.least(job.since + windows.ackWindow);
                job = { ...job, status: "CancelRequested", since: now };
                break;
              case "finalize_cancel":
                expect(now).to.be.at.least(job.since + windows.responseWindow);
                job = { ...job, status: "Cancelled" };
                break;
              case "expire":
                expect(now).to.be.greaterThan(job.deadline);
                job = { ...job, status: "Expired" };
                break;
              case "slash":
                expect(now).to.be.greaterThan(job.deadline);
                expect(has.fault && has.acknowledged && has.slashes).to.equal(true);
                job = { ...job, status: "Slashed" };
                break;
              default:
                // The provider is silent for ever.
                now += 10;
            }
            if (turns === 49) now += 10_000;
          }
          const last = nextStep(document, job, deadline + 10_000, (deadline + 10_000) * 1000, windows);
          expect(["expire", "slash", "ended", "finalize_cancel"]).to.include(last.kind);
        },
      ),
    );
  });
});

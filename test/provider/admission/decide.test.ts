import { expect } from "chai";
import * as fc from "fast-check";
import type { Address } from "viem";
import type { CompletionRequest } from "../../../provider/admission/completion-request.ts";
import {
  checkAuthorizationTime,
  checkJob,
  type JobCheck,
  lowerCost,
  paidOutputTokens,
} from "../../../provider/admission/decide.ts";
import { ProviderError } from "../../../provider/errors.ts";
import type { OnChainJob } from "../../../provider/escrow/on-chain-job.ts";
import { modelKeyOf } from "../../../protocol/model-key.ts";
import { escrowFor, inputTokensBound } from "../../../protocol/money.ts";

const provider: Address = "0x00000000000000000000000000000000000000A1";
const modelKey = modelKeyOf("acme/tiny");
const prices = { inputPrice: 2_000_000n, outputPrice: 6_000_000n };
const now = 1_800_000_000;

const request: CompletionRequest = {
  model: "acme/tiny",
  stream: true,
  includesUsage: true,
  streamOptions: {},
  maxOutputTokens: 100,
  choices: 1,
  promptBytes: 400,
};

const job: OnChainJob = {
  jobId: `0x${"11".repeat(32)}`,
  status: "Open",
  client: "0x00000000000000000000000000000000000000C1",
  provider,
  modelKey,
  offeringId: 1,
  prices,
  maxPayment: 10_000n,
  unsignedLimit: 0n,
  deadline: now + 600,
};

const good: JobCheck = {
  job,
  provider,
  request,
  offered: { modelKey, prices, contextLength: 4096 },
  recordPrices: undefined,
  nowSeconds: now,
  minRemainingSeconds: 20,
};

function codeOf(check: () => void): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof ProviderError) return error.code;
    throw error;
  }
}

const withJob = (change: Partial<OnChainJob>): JobCheck => ({ ...good, job: { ...job, ...change } });

describe("checkJob", () => {
  it("takes an open or acknowledged job that pays for its request", () => {
    expect(codeOf(() => checkJob(good))).to.equal(undefined);
    expect(codeOf(() => checkJob(withJob({ status: "Acknowledged" })))).to.equal(undefined);
    expect(codeOf(() => checkJob(withJob({ provider: provider.toLowerCase() as Address })))).to.equal(undefined);
  });

  it("refuses a job of another provider, so that nobody works for another's pay", () => {
    expect(codeOf(() => checkJob(withJob({ provider: job.client })))).to.equal("job_not_found");
  });

  it("refuses a job in any other state", () => {
    for (const status of ["CancelRequested", "Completed", "Declined", "Cancelled", "Expired", "Slashed"] as const) {
      expect(codeOf(() => checkJob(withJob({ status })))).to.equal("job_not_open");
    }
  });

  it("refuses a job that was paid at another model's price", () => {
    expect(codeOf(() => checkJob(withJob({ modelKey: modelKeyOf("other") })))).to.equal("model_not_offered");
  });

  it("refuses prices below the offering, either kind", () => {
    const low = { inputPrice: 1n, outputPrice: prices.outputPrice };
    const low2 = { inputPrice: prices.inputPrice, outputPrice: 1n };
    expect(codeOf(() => checkJob(withJob({ prices: low })))).to.equal("insufficient_payment");
    expect(codeOf(() => checkJob(withJob({ prices: low2 })))).to.equal("insufficient_payment");
  });

  it("keeps the price of a record that this node published before it raised its prices", () => {
    const old = { inputPrice: 1_000_000n, outputPrice: 3_000_000n };
    expect(codeOf(() => checkJob({ ...withJob({ prices: old }), recordPrices: old }))).to.equal(undefined);
  });

  it("refuses a deadline that leaves no time to serve and settle", () => {
    expect(codeOf(() => checkJob(withJob({ deadline: now + 19 })))).to.equal("deadline_too_close");
    expect(codeOf(() => checkJob(withJob({ deadline: now + 20 })))).to.equal(undefined);
  });

  it("refuses a largest payment that does not cover max_tokens", () => {
    expect(codeOf(() => checkJob(withJob({ maxPayment: 600n })))).to.equal("insufficient_payment");
    expect(codeOf(() => checkJob(withJob({ maxPayment: 650n })))).to.equal(undefined);
  });

  it("refuses a largest payment that covers max_tokens of one choice where several are asked for", () => {
    const three = { ...request, choices: 3 };
    expect(codeOf(() => checkJob({ ...withJob({ maxPayment: 1_000n }), request: three }))).to.equal(
      "insufficient_payment",
    );
    expect(codeOf(() => checkJob({ ...withJob({ maxPayment: 1_850n }), request: three }))).to.equal(undefined);
  });

  it("never refuses the payment of a gateway that sizes its escrow by the shared formula", () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 200_000 }),
        fc.option(fc.nat({ max: 100_000 }), { nil: undefined }),
        fc.integer({ min: 1, max: 200_000 }),
        fc.bigInt({ min: 0n, max: 10n ** 15n }),
        fc.bigInt({ min: 1n, max: 10n ** 15n }),
        (promptBytes, maxOutputTokens, contextLength, inputPrice, outputPrice) => {
          const own = { inputPrice, outputPrice };
          const locked = escrowFor({
            inputTokens: inputTokensBound(promptBytes),
            outputTokens: maxOutputTokens ?? 16_384,
            prices: own,
            headroomRatio: 0,
            contextLength,
          });
          const least = lowerCost({ ...request, promptBytes, maxOutputTokens }, own, contextLength);
          expect(least <= locked).to.equal(true);
        },
      ),
    );
  });
});

describe("the output that a payment covers", () => {
  const unbounded = { ...request, maxOutputTokens: undefined };

  it("is what is left beside the prompt, for each choice, and at least one token", () => {
    // 400 bytes are about 100 tokens at 2 wei, a token of output costs 6.
    expect(paidOutputTokens(unbounded, { maxPayment: 800n, prices }, 4096)).to.equal(100);
    expect(paidOutputTokens({ ...unbounded, choices: 4 }, { maxPayment: 800n, prices }, 4096)).to.equal(25);
    expect(paidOutputTokens(unbounded, { maxPayment: 10n, prices }, 4096)).to.equal(1);
  });

  it("is no bound of ours where the request has one, the context is shorter, or output is free", () => {
    expect(paidOutputTokens(request, { maxPayment: 800n, prices }, 4096)).to.equal(undefined);
    expect(paidOutputTokens(unbounded, { maxPayment: 10n ** 9n, prices }, 4096)).to.equal(undefined);
    const free = { inputPrice: 1n, outputPrice: 0n };
    expect(paidOutputTokens(unbounded, { maxPayment: 1n, prices: free }, 4096)).to.equal(undefined);
  });
});

describe("checkAuthorizationTime", () => {
  it("refuses what is over, and what would be a standing permission", () => {
    expect(codeOf(() => checkAuthorizationTime(now, now, 3600))).to.equal("invalid_authorization");
    expect(codeOf(() => checkAuthorizationTime(now + 1, now, 3600))).to.equal(undefined);
    expect(codeOf(() => checkAuthorizationTime(now + 3600, now, 3600))).to.equal(undefined);
    expect(codeOf(() => checkAuthorizationTime(now + 3601, now, 3600))).to.equal("invalid_authorization");
  });
});

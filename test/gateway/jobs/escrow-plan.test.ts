import { expect } from "chai";
import { type EscrowPolicy, planEscrow } from "../../../gateway/jobs/escrow-plan.ts";
import { parseCompletionRequest } from "../../../gateway/openai/completion-request.ts";
import { candidateOf } from "../../../gateway/routing/pool/member.ts";
import type { Candidate } from "../../../gateway/routing/types.ts";
import { collateralFor } from "../../../protocol/money.ts";
import { addressOf, providerRecord, testModel } from "../routing/support/registry.ts";

const body = { model: testModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 1000 };
const completion = parseCompletionRequest("chat", new TextEncoder().encode(JSON.stringify(body)));
const policy: EscrowPolicy = {
  defaultMaxOutputTokens: 1000,
  headroomRatio: 0.2,
  unsignedLimitRatio: 0.5,
  maxPerJob: undefined,
  minPayment: 1n,
  collateralBps: 5_000,
};

function candidate(index: number, price: bigint, stake: bigint): Candidate {
  const offer = { inputPrice: price, outputPrice: price };
  const record = providerRecord({ address: addressOf(index), models: { [testModel]: offer }, stake });
  const offering = record.offerings.get(testModel) ?? expect.fail("no offering");
  return candidateOf(record, offering);
}

const ample = 10n ** 24n;

describe("the terms of a post", () => {
  /** What the job of a candidate at this price would hold of its stake, when it is posted to nobody else. */
  const collateralAlone = (price: bigint): bigint => {
    const { maxPayment } = planEscrow(completion, [candidate(1, price, ample)], policy) ?? expect.fail("no plan");
    return collateralFor(maxPayment, policy.collateralBps);
  };

  it("name no dearer candidate whose job the first one's stake does not cover, as the chain would pass over the first", () => {
    const [cheap, dear] = [1_000_000n, 2_000_000n];
    const ranked = (stake: bigint) => [
      candidate(1, cheap, stake),
      candidate(2, dear, ample),
      candidate(3, cheap, ample),
    ];
    const chosen = (stake: bigint) =>
      planEscrow(completion, ranked(stake), policy)?.candidates.map(({ provider }) => provider);
    expect(chosen(collateralAlone(dear))).to.deep.equal([1, 2, 3].map(addressOf));
    expect(chosen(collateralAlone(dear) - 1n)).to.deep.equal([1, 3].map(addressOf));
    expect(chosen(collateralAlone(cheap))).to.deep.equal([1, 3].map(addressOf));
  });

  it("keep the first candidate, whatever the index says of its stake", () => {
    const plan = planEscrow(completion, [candidate(1, 1_000_000n, 0n)], policy);
    expect(plan?.candidates).to.have.length(1);
  });
});

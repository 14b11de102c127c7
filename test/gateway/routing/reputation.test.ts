import { expect } from "chai";
import fc from "fast-check";
import { type ClientWeights, noWeights, withWeight } from "../../../chain/registry-index/client-weights.ts";
import type { ReputationRecord } from "../../../chain/registry-index/types.ts";
import {
  creditedPayments,
  noReputation,
  type Reputation,
  reputationOf,
  seasonedJobs,
  type Standing,
  standingOf,
} from "../../../gateway/routing/reputation.ts";
import { addressOf } from "./support/registry.ts";

/** A reference job costs 1 unit: 1,000 tokens each way at 500 units per million tokens. */
const prices = { inputPrice: 500n, outputPrice: 500n };
const halfLifeSeconds = 604_800;
const order: readonly Standing[] = ["poor", "newcomer", "seasoned"];

function paidBy(amounts: readonly number[], firstClient = 1): ClientWeights {
  return amounts.reduce((sum, amount, index) => withWeight(sum, addressOf(firstClient + index), amount), noWeights);
}

function both(a: readonly number[], b: readonly number[]): ClientWeights {
  return [...b.entries()].reduce((sum, [index, amount]) => withWeight(sum, addressOf(1000 + index), amount), paidBy(a));
}

function record(change: Partial<ReputationRecord>): ReputationRecord {
  return { time: 0, halfLifeSeconds, paid: noWeights, failed: noWeights, ownServed: 0, ownFaults: 0, ...change };
}

function standing(change: Partial<ReputationRecord>, seenFaults = 0, at = 0): Standing {
  return standingOf(reputationOf(record(change), prices, at), seenFaults);
}

function total(amounts: readonly number[]): number {
  return amounts.reduce((sum, amount) => sum + amount, 0);
}

const amount = fc.integer({ min: 0, max: 1_000_000 });
const amounts = fc.array(amount, { maxLength: 25 });
const jobs = fc.double({ min: 0, max: 1000, noNaN: true });
const anyRecord = fc
  .record({ paid: amounts, failed: fc.array(amount, { maxLength: 12 }), ownServed: jobs, ownFaults: jobs })
  .map(({ paid, failed, ...own }) => record({ paid: paidBy(paid), failed: paidBy(failed, 50), ...own }));

describe("what strangers' payments are worth", () => {
  it("is nothing when fewer than ten clients paid, however much they paid: a farmer that pays itself gains nothing", () => {
    fc.assert(
      fc.property(fc.array(amount, { maxLength: 9 }), (farmer) => {
        expect(creditedPayments(paidBy(farmer.map((each) => each / 3)))).to.equal(0);
      }),
    );
  });

  it("is at most 10 / (10 - k) times what all others paid, whatever k clients of one farmer pay", () => {
    fc.assert(
      fc.property(fc.array(amount, { maxLength: 9 }), amounts, (farmer, honest) => {
        const bound = (10 * total(honest)) / (10 - farmer.length);
        expect(creditedPayments(both(honest, farmer))).to.be.at.most(bound * (1 + 1e-9));
      }),
    );
  });

  it("is the greatest sum in which no client has more than a tenth", () => {
    fc.assert(
      fc.property(amounts, (list) => {
        const credited = creditedPayments(paidBy(list));
        const cap = credited / 10;
        const capped = total(list.map((each) => Math.min(each, cap)));
        expect(capped).to.be.closeTo(credited, 1e-6 * (1 + credited));
        const more = cap * 1.001 + 0.001;
        expect(total(list.map((each) => Math.min(each, more)))).to.be.lessThan(10 * more);
      }),
    );
  });

  it("is all of it when it is spread evenly", () => {
    for (const clients of [10, 25, 60]) {
      const list = Array.from({ length: clients }, () => 7);
      expect(creditedPayments(paidBy(list))).to.be.closeTo(7 * clients, 1e-9);
    }
  });

  it("is never taken for more than it is where only the heaviest clients are known apart", () => {
    fc.assert(
      fc.property(fc.array(amount, { minLength: 33, maxLength: 60 }), (list) => {
        const sorted = list.toSorted((a, b) => b - a);
        const sum = total(list);
        let credited = sum;
        for (let heaviest = 1; heaviest < 10; heaviest += 1) {
          credited = Math.min(credited, (10 * (sum - total(sorted.slice(0, heaviest)))) / (10 - heaviest));
        }
        expect(creditedPayments(paidBy(list))).to.be.at.most(credited * (1 + 1e-9));
      }),
    );
  });
});

describe("a provider's standing", () => {
  const tenClients = (each: number): ClientWeights => paidBy(Array.from({ length: 10 }, () => each));

  it("is seasoned by twenty reference jobs of ten clients, or by twenty jobs of this gateway's own, and not by fewer", () => {
    expect(standing({ paid: tenClients(2) })).to.equal("seasoned");
    expect(standing({ paid: tenClients(1.9) })).to.equal("newcomer");
    expect(standing({ ownServed: 20 })).to.equal("seasoned");
    expect(standing({ ownServed: 19 })).to.equal("newcomer");
    expect(standing({ ownServed: 10, paid: tenClients(1) })).to.equal("seasoned");
    expect(standingOf(reputationOf(undefined, prices, 0))).to.equal("newcomer");
  });

  it("cannot be bought by paying oneself, as it could where payments were simply added up", () => {
    for (const clients of [1, 3, 9]) {
      const farmer = paidBy(Array.from({ length: clients }, () => 1_000_000));
      expect(standing({ paid: farmer }), `${clients} clients`).to.equal("newcomer");
      expect(standingOf({ ...noReputation, served: farmer.total }), "added up").to.equal("seasoned");
    }
  });

  it("is lost by a higher price: a name earned cheaply says nothing of dear jobs", () => {
    const paid = tenClients(2);
    const dear = { inputPrice: 5_000n, outputPrice: 5_000n };
    expect(standingOf(reputationOf(record({ paid }), dear, 0))).to.equal("newcomer");
  });

  it("is poor from a twentieth of faults on", () => {
    expect(standing({ ownServed: 95, ownFaults: 5 })).to.equal("seasoned");
    expect(standing({ ownServed: 94, ownFaults: 6 })).to.equal("poor");
    expect(standing({ ownServed: 0, ownFaults: 2 }), "nothing yet but faults").to.equal("poor");
  });

  it("falls by two faults that this gateway sees itself, whatever all others say", () => {
    fc.assert(
      fc.property(fc.array(amount, { maxLength: 60 }), (list) => {
        expect(standing({ paid: paidBy(list) }, 2)).to.equal("poor");
      }),
    );
  });

  it("is by this gateway's own jobs alone good enough to outweigh whatever strangers report", () => {
    fc.assert(
      fc.property(fc.array(amount, { maxLength: 12 }), (failed) => {
        expect(standing({ failed: paidBy(failed), ownServed: 400 })).to.equal("seasoned");
      }),
    );
  });

  it("takes a fault that was seen and then proven on the chain for one fault", () => {
    expect(standing({ ownServed: 24, ownFaults: 1 }, 1)).to.equal("seasoned");
    expect(standing({ ownServed: 24, ownFaults: 1 }, 2)).to.equal("poor");
  });

  it("falls at most by a ninth through one client that has a provider fail, however much it had at stake", () => {
    fc.assert(
      fc.property(fc.integer({ min: 20, max: 1000 }), fc.integer({ min: 1, max: 1e9 }), (each, stake) => {
        const before = reputationOf(record({ paid: tenClients(each) }), prices, 0);
        const after = reputationOf(record({ paid: tenClients(each), failed: paidBy([stake], 500) }), prices, 0);
        expect(before.faults).to.equal(0);
        // The base holds 20 reference jobs more than what was paid.
        const most = (10 * each + seasonedJobs) / 9 / (10 * each);
        expect(after.faults / after.served).to.be.at.most(most * (1 + 1e-9));
      }),
    );
  });

  it("never falls by a success and never rises by a fault, of whatever client", () => {
    fc.assert(
      fc.property(anyRecord, fc.nat(70), amount, (before, client, more) => {
        const rank = (each: ReputationRecord): number => order.indexOf(standingOf(reputationOf(each, prices, 0)));
        const paid = { ...before, paid: withWeight(before.paid, addressOf(client), more) };
        const failed = { ...before, failed: withWeight(before.failed, addressOf(client), more + 1) };
        expect(rank(paid)).to.be.at.least(rank(before));
        expect(rank({ ...before, ownServed: before.ownServed + 1 })).to.be.at.least(rank(before));
        // A newcomer of 19 jobs and a small fault has 20 jobs: the share of faults is what may not fall.
        if (rank(before) !== order.indexOf("newcomer")) expect(rank(failed)).to.be.at.most(rank(before));
        expect(share(failed), "the share of faults").to.be.at.least(share(before) - 1e-9);
      }),
    );
    function share(each: ReputationRecord): number {
      const { served, faults } = reputationOf(each, prices, 0);
      return served + faults === 0 ? 0 : faults / (served + faults);
    }
  });

  it("fades: with every second all that is known of a provider weighs less, good and bad", () => {
    fc.assert(
      fc.property(anyRecord, fc.nat(4 * halfLifeSeconds), fc.nat(4 * halfLifeSeconds), (each, at, later) => {
        const [before, after] = [reputationOf(each, prices, at), reputationOf(each, prices, at + later)];
        const evidence = ({ served, faults }: Reputation): number => served + faults;
        expect(evidence(after)).to.be.at.most(evidence(before) * (1 + 1e-9));
      }),
    );
    expect(standing({ ownServed: 40 }, 0, halfLifeSeconds)).to.equal("seasoned");
    expect(standing({ ownServed: 39 }, 0, halfLifeSeconds)).to.equal("newcomer");
    expect(standing({ ownFaults: 8 }, 0, 3 * halfLifeSeconds)).to.equal("newcomer");
  });
});

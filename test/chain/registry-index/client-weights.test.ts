import { expect } from "chai";
import * as fc from "fast-check";
import type { Address } from "viem";
import {
  type ClientWeights,
  maxListedClients,
  noWeights,
  scaledWeights,
  sumOfWeights,
  withWeight,
} from "../../../chain/registry-index/client-weights.ts";
import { person } from "../../support/fake-chain.ts";

const people = Array.from({ length: 80 }, (_, index) => person(index));
/** Few clients pay much and most pay little, as in a market. */
const payment = fc.record({
  client: fc.oneof(fc.nat(5), fc.nat(79)).map((index): Address => people[index] ?? person(index)),
  weight: fc.integer({ min: 1, max: 1000 }),
});
const payments = fc.array(payment, { maxLength: 300 });
type Payments = readonly { readonly client: Address; readonly weight: number }[];

function weigh(list: Payments): ClientWeights {
  return list.reduce((sum, { client, weight }) => withWeight(sum, client, weight), noWeights);
}

function exact(list: Payments): Map<Address, number> {
  const sums = new Map<Address, number>();
  for (const { client, weight } of list) sums.set(client, (sums.get(client) ?? 0) + weight);
  return sums;
}

/** What is promised of the weights of some payments. */
function expectFaithful(weights: ClientWeights, list: Payments): void {
  const sums = exact(list);
  const total = [...sums.values()].reduce((sum, each) => sum + each, 0);
  const listed = new Map(weights.clients.map((client, index) => [client, weights.weights[index] ?? 0]));
  expect(weights.total).to.equal(total);
  expect(weights.clients.length).to.be.at.most(maxListedClients);
  expect(weights.unlisted).to.be.at.most(total / (maxListedClients + 1));
  expect([...weights.weights].toSorted((a, b) => b - a)).to.deep.equal([...weights.weights]);
  for (const [client, sum] of sums) {
    expect(listed.get(client) ?? 0, "never too much").to.be.at.most(sum);
    expect((listed.get(client) ?? 0) + weights.unlisted, "never too little").to.be.at.least(sum);
  }
}

describe("the weights of a provider's clients", () => {
  it("bound every client's true weight from both sides, in bounded memory, however many clients there are", () => {
    fc.assert(fc.property(payments, (list) => expectFaithful(weigh(list), list)));
  });

  it("keep their promise when what was counted apart is added up", () => {
    fc.assert(
      fc.property(payments, payments, (before, after) =>
        expectFaithful(sumOfWeights(weigh(before), weigh(after)), [...before, ...after]),
      ),
    );
  });

  it("are the same in whatever order up to 32 clients paid, so that gateways agree", () => {
    const few = fc.array(payment, { maxLength: 200 }).map((list) => {
      const clients = new Set([...new Set(list.map(({ client }) => client))].slice(0, maxListedClients));
      return list.filter(({ client }) => clients.has(client));
    });
    fc.assert(
      fc.property(
        few.chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length }))),
        ([list, shuffled]) => {
          expect(weigh(shuffled)).to.deep.equal(weigh(list));
        },
      ),
    );
  });

  it("keep the order and the promise when they decay", () => {
    fc.assert(
      fc.property(payments, (list) => {
        const half = scaledWeights(weigh(list), 0.5);
        expectFaithful(
          half,
          list.map(({ client, weight }) => ({ client, weight: weight / 2 })),
        );
      }),
    );
  });
});

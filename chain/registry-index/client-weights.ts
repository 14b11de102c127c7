import type { Address } from "viem";

/** Most clients whose weights are kept apart. */
export const maxListedClients = 32;

/**
 * Weights of many clients in bounded memory (Misra and Gries, "Finding repeated elements", 1982, with weights): the heaviest are listed,
 * what a client may weigh beyond its listed weight, or without being listed, is at most `unlisted`. With at most 32 clients all is exact
 * and `unlisted` 0; with more it is at most a 33rd of the total. Immutable.
 */
export interface ClientWeights {
  /** Sum over all clients; exact. */
  readonly total: number;
  readonly unlisted: number;
  /** Heaviest first, beside `weights`. */
  readonly clients: readonly Address[];
  readonly weights: readonly number[];
}

/** No client. */
export const noWeights: ClientWeights = Object.freeze({ total: 0, unlisted: 0, clients: [], weights: [] });

/** With more weight of one client. @param weight >= 0. */
export function withWeight(before: ClientWeights, client: Address, weight: number): ClientWeights {
  if (weight === 0) return before;
  const clients = [...before.clients];
  const weights = [...before.weights];
  let at = clients.indexOf(client);
  if (at === -1) at = clients.push(client) - 1;
  weights[at] = (weights[at] ?? 0) + weight;
  for (; at > 0 && isHeavier(clients, weights, at, at - 1); at -= 1) swap(clients, weights, at, at - 1);
  return shortened(before.total + weight, before.unlisted, clients, weights);
}

/** Of both together; what is promised of each holds of the sum. */
export function sumOfWeights(a: ClientWeights, b: ClientWeights): ClientWeights {
  if (a.total === 0) return b;
  if (b.total === 0) return a;
  const sums = new Map<Address, number>();
  for (const { clients, weights } of [a, b]) {
    for (const [index, client] of clients.entries()) sums.set(client, (sums.get(client) ?? 0) + (weights[index] ?? 0));
  }
  const sorted = [...sums].toSorted(([client, weight], [other, than]) =>
    weight === than ? (client < other ? -1 : 1) : than - weight,
  );
  const clients = sorted.map(([client]) => client);
  const weights = sorted.map(([, weight]) => weight);
  return shortened(a.total + b.total, a.unlisted + b.unlisted, clients, weights);
}

/** All weights times a factor. @param factor 0..1. */
export function scaledWeights(before: ClientWeights, factor: number): ClientWeights {
  if (factor === 1 || before.total === 0) return before;
  return Object.freeze({
    total: before.total * factor,
    unlisted: before.unlisted * factor,
    clients: before.clients,
    weights: before.weights.map((weight) => weight * factor),
  });
}

/** Cuts a sorted list to its bound: the weight of the first that does not fit is taken off everybody. */
function shortened(total: number, unlisted: number, clients: Address[], weights: number[]): ClientWeights {
  if (clients.length <= maxListedClients) return Object.freeze({ total, unlisted, clients, weights });
  const cut = weights[maxListedClients] ?? 0;
  const left = weights.map((weight) => weight - cut).filter((weight) => weight > 0);
  return Object.freeze({ total, unlisted: unlisted + cut, clients: clients.slice(0, left.length), weights: left });
}

function isHeavier(clients: readonly Address[], weights: readonly number[], a: number, b: number): boolean {
  const [weight, other] = [weights[a] ?? 0, weights[b] ?? 0];
  // Equal weights by address, so that the order does not tell who came first.
  return weight === other ? (clients[a] ?? "") < (clients[b] ?? "") : weight > other;
}

function swap(clients: Address[], weights: number[], a: number, b: number): void {
  [clients[a], clients[b]] = [clients[b] as Address, clients[a] as Address];
  [weights[a], weights[b]] = [weights[b] as number, weights[a] as number];
}

import type { Address } from "viem";
import { noWeights, withWeight } from "../chain/registry-index/client-weights.ts";
import type { ProviderRecord, RegistrySnapshot, ReputationRecord } from "../chain/registry-index/types.ts";
import type { PolicyConfig } from "../gateway/routing/policy-config.ts";
import { createPolicy, select } from "../gateway/routing/select.ts";
import { deriveRoutingState, type RoutingState } from "../gateway/routing/state.ts";
import { RoutingStatistics } from "../gateway/routing/statistics/routing-statistics.ts";
import { policyNames, type RoutingRequest } from "../gateway/routing/types.ts";
import type { Random } from "../protocol/clock.ts";
import { type FewRow, measureFew, printFew } from "./bench-select/few.ts";
import { addressOf, model, providerOf, Registry } from "./bench-select/market.ts";
import { list, runCommand, toggle, type Values, wholeNumber } from "./command-line.ts";
import { seeded } from "./sim/engine/random.ts";

const warmUp = 500;
const batch = 20;

const command = {
  name: "npm run bench:select --",
  about:
    "Prints the cost of one routing decision and of one change of the registry, per policy, at several numbers of providers.",
  options: {
    providers: list(
      wholeNumber({ about: "numbers of providers to measure with", fallback: undefined, least: 1, most: 1_000_000 }),
      "N,N,...",
      [100, 10_000, 100_000],
    ),
    decisions: wholeNumber({
      about: `decisions measured per policy and number of providers, after ${warmUp} to warm up`,
      fallback: 2000,
      least: batch,
    }),
    few: wholeNumber({
      about:
        "providers of the part that shows what a decision costs where three of them fit the request; 0 leaves it out",
      fallback: 20_000,
      least: 0,
      most: 1_000_000,
    }),
    json: toggle("the last line of standard output is a JSON object with all figures"),
  },
  examples: ["--providers 100,10000 --json"],
};

type Options = Values<typeof command.options>;

function recordOf(address: Address, random: Random): ProviderRecord {
  // Drawn in this order: another one would make other providers.
  const inputPrice = BigInt(Math.floor(1e12 * (0.5 + random())));
  const outputPrice = BigInt(Math.floor(3e12 * (0.5 + random())));
  const contextLength = 2 ** (13 + Math.floor(random() * 4));
  const maxConcurrentJobs = Math.floor(random() * 9);
  const lastSeen = 1_000_000 - Math.floor(random() * 300);
  const openJobs = Math.floor(random() * (maxConcurrentJobs + 1));
  const reputation = reputationRecord(random);
  return providerOf(address, {
    inputPrice,
    outputPrice,
    contextLength,
    lastSeen,
    maxConcurrentJobs,
    openJobs,
    stake: 0n,
    reputation,
  });
}

/** A third of the providers is known to this gateway, all have had jobs of a dozen clients. */
function reputationRecord(random: Random): ReputationRecord {
  let [paid, failed] = [noWeights, noWeights];
  for (let client = 0; client < 12; client += 1) {
    paid = withWeight(paid, addressOf(1e6 + client), 1e10 * random());
    if (random() < 0.01) failed = withWeight(failed, addressOf(1e6 + client), 1e10);
  }
  const ownServed = random() < 1 / 3 ? Math.floor(random() * 60) : 0;
  return { time: 1_000_000, halfLifeSeconds: 604_800, paid, failed, ownServed, ownFaults: 0 };
}

/** A snapshot whose records stay as they are while the registry goes on, as the derivation of a change needs. */
function frozen(snapshot: RegistrySnapshot, changed: Address, before: ProviderRecord | undefined): RegistrySnapshot {
  return { ...snapshot, provider: (address) => (address === changed ? before : snapshot.provider(address)) };
}

function fill(statistics: RoutingStatistics, records: ReadonlyMap<Address, ProviderRecord>, random: Random): void {
  for (const [address, { openJobs, maxConcurrentJobs }] of records) {
    const mean = 500 + random() * 8000;
    statistics.report(address, {
      provider: address,
      issuedAt: 1,
      draining: false,
      maxConcurrentJobs,
      running: openJobs,
      models: [
        {
          model,
          generation: "g",
          running: openJobs,
          lastMeanInputTps: mean,
          maxInputTps: mean * (1 + random()),
          queuedInputTokens: Math.floor(random() * 2000),
          kvFreeTokens: 1e6,
        },
      ],
    });
    if (random() < 0.2) {
      const lease = statistics.acquire(address, 1, model);
      lease.end({ outcome: random() < 0.97 ? "success" : "fault", ttftMs: 100 + random() * 900, durationMs: 3000 });
    }
    if (random() < Math.min(0.2, 2000 / records.size)) statistics.acquire(address, 1, model);
  }
}

const configs: readonly (readonly [string, PolicyConfig, "repeated" | "fresh"])[] = [
  ...policyNames
    .filter((name) => name !== "manual")
    .map((name): readonly [string, PolicyConfig, "fresh"] => [name, { name }, "fresh"]),
  ["pulsar, key seen before", { name: "pulsar" }, "repeated"],
];

interface Row {
  readonly providers: number;
  readonly policy: string;
  /** Median over batches of 20 decisions. */
  readonly nsPerDecision: number;
  /** The fastest tenth of the batches: what remains when other processes of the machine are left out. */
  readonly quietNs: number;
}

function measure(
  label: string,
  config: PolicyConfig,
  keys: "repeated" | "fresh",
  state: RoutingState,
  statistics: RoutingStatistics,
  options: Options,
): Row {
  const policy = createPolicy(config);
  const random = seeded(7);
  const published = { snapshot: state.snapshot, derived: state };
  let sink = 0;
  const batches: number[] = [];
  let start = performance.now();
  for (let index = -warmUp; index < options.decisions; index += 1) {
    const request: RoutingRequest = {
      modelId: model,
      inputTokens: 500 + Math.floor(random() * 1000),
      outputTokens: 256,
      affinityKey: keys === "fresh" ? `conversation-${index}` : `conversation-${index & 15}`,
      routingText: `You are a helpful assistant. Conversation ${index}`,
      elapsedMs: 0,
      tried: new Set(),
      maxPrice: undefined,
    };
    sink += select(published, request, policy, statistics, 1, random).ranked.length;
    if (index < 0) start = performance.now();
    else if ((index + 1) % batch === 0) {
      const now = performance.now();
      batches.push(((now - start) * 1e6) / batch);
      start = now;
    }
  }
  if (sink === 0) throw new Error(`${label}: no decision found anybody`);
  const sorted = batches.toSorted((a, b) => a - b);
  const quantile = (share: number): number => Math.round(sorted[Math.floor(share * sorted.length)] ?? Number.NaN);
  return {
    providers: state.snapshot.providerCount,
    policy: label,
    nsPerDecision: quantile(0.5),
    quietNs: quantile(0.1),
  };
}

interface Join {
  readonly providers: number;
  /** All in one derivation. Ms of processor time, as below. */
  readonly ms: number;
  /** Each in a derivation of its own; absent for many. */
  readonly oneByOneMs?: number;
}

interface ChangeRow {
  readonly providers: number;
  readonly change: string;
  readonly nsPerChange: number;
}

function measureChanges(registry: Registry, start: RoutingState, addresses: readonly Address[]): ChangeRow[] {
  const random = seeded(11);
  const rows: ChangeRow[] = [];
  let state = start;
  const step = (
    change: string,
    count: number,
    next: (index: number) => readonly [Address, ProviderRecord | undefined],
  ) => {
    const times: number[] = [];
    for (let index = 0; index < count; index += 1) {
      const [address, record] = next(index);
      const before = registry.records.get(address);
      const previous = { ...state.snapshot };
      // The derivation asks the former snapshot for the former record.
      Object.assign(state.snapshot, frozen(previous, address, before));
      if (record === undefined) registry.records.delete(address);
      else registry.records.set(address, record);
      const snapshot = registry.snapshot();
      const delta = { providers: new Set([address]), models: new Set([model]) };
      const at = performance.now();
      state = deriveRoutingState(snapshot, delta, state);
      times.push((performance.now() - at) * 1e6);
    }
    rows.push({
      providers: addresses.length,
      change: change,
      nsPerChange: Math.round(times.toSorted((a, b) => a - b)[count >> 1] ?? Number.NaN),
    });
  };
  const count = 300;
  const pick = () => addresses[Math.floor(random() * addresses.length)] as Address;
  for (const name of ["warm-up", "slot taken or freed"]) {
    step(name, count, () => {
      const address = pick();
      const record = registry.records.get(address) as ProviderRecord;
      return [address, { ...record, maxConcurrentJobs: 4, openJobs: (record.openJobs + 1) % 5 }];
    });
  }
  const newcomers = Array.from({ length: count }, (_, index) => addressOf(9_000_000 + index));
  step("join", count, (index) => {
    const address = newcomers[index] as Address;
    return [address, recordOf(address, random)];
  });
  step("leave", count, (index) => [newcomers[index] as Address, undefined]);
  return rows.filter(({ change }) => change !== "warm-up");
}

/** Providers that join one after the other at most: enough to show that a join costs what changed. */
const mostOneByOne = 10_000;

/** Ms of processor time for all of them to join one after the other, each with a snapshot of its own, from an empty registry. */
function joinOneByOne(records: readonly ProviderRecord[]): number {
  const registry = new Registry();
  const models = new Set([model]);
  let state = deriveRoutingState(registry.snapshot(), { providers: new Set(), models }, undefined);
  const start = process.cpuUsage();
  for (const record of records) {
    Object.assign(state.snapshot, frozen({ ...state.snapshot }, record.address, undefined));
    registry.records.set(record.address, record);
    state = deriveRoutingState(registry.snapshot(), { providers: new Set([record.address]), models }, state);
  }
  if (state.ring(model)?.size !== records.length) throw new Error("somebody did not join");
  return processorMs(start);
}

/** Processor time since a reading, ms: what other processes of the machine do leaves it as it is. */
function processorMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return Math.round((user + system) / 1000);
}

function main(options: Options): number {
  const rows: Row[] = [];
  const changes: ChangeRow[] = [];
  const joins: Join[] = [];
  for (const count of options.providers) {
    const random = seeded(3);
    const registry = new Registry();
    const addresses = Array.from({ length: count }, (_, index) => addressOf(index + 1));
    for (const address of addresses) registry.records.set(address, recordOf(address, random));
    const start = process.cpuUsage();
    const state = deriveRoutingState(
      registry.snapshot(),
      { providers: new Set(addresses), models: new Set([model]) },
      undefined,
    );
    const ms = processorMs(start);
    const oneByOneMs = count <= mostOneByOne ? joinOneByOne([...registry.records.values()]) : undefined;
    joins.push({ providers: count, ms, ...(oneByOneMs === undefined ? {} : { oneByOneMs }) });
    const statistics = new RoutingStatistics({ clock: { monotonic: () => 0 } });
    fill(statistics, registry.records, random);
    for (const [label, config, keys] of configs) rows.push(measure(label, config, keys, state, statistics, options));
    changes.push(...measureChanges(registry, state, addresses));
  }
  print(rows, changes, joins, options.few === 0 ? [] : measureFew(options.few), options);
  return 0;
}

/** Ns of a look-up in a map of 100,000 addresses, in random order: how fast this machine reads memory. The other figures go with it. */
function calibrate(): number {
  const addresses = Array.from({ length: 100_000 }, (_, index) => `0x${(index * 7919).toString(16).padStart(40, "0")}`);
  const places = new Map(addresses.map((address, index) => [address, { index }]));
  const random = seeded(5);
  const order = Array.from({ length: 300_000 }, () => addresses[Math.floor(random() * addresses.length)] as string);
  let sum = 0;
  const start = performance.now();
  for (const address of order) sum += places.get(address)?.index ?? 0;
  const ns = ((performance.now() - start) * 1e6) / order.length;
  if (sum === 0) throw new Error("the calibration found nothing");
  return Math.round(ns);
}

function print(
  rows: readonly Row[],
  changes: readonly ChangeRow[],
  joins: readonly Join[],
  few: readonly FewRow[],
  options: Options,
): void {
  for (const row of rows) {
    console.log(
      `${String(row.providers).padStart(7)}  ${row.policy.padEnd(26)} ${(row.nsPerDecision / 1000).toFixed(1).padStart(8)} us/decision   quiet ${(row.quietNs / 1000).toFixed(1).padStart(8)} us`,
    );
  }
  for (const row of changes) {
    console.log(
      `${String(row.providers).padStart(7)}  ${row.change.padEnd(26)} ${(row.nsPerChange / 1000).toFixed(1).padStart(8)} us/change`,
    );
  }
  for (const { providers, ms, oneByOneMs } of joins) {
    const oneByOne = oneByOneMs === undefined ? "" : `, one by one ${oneByOneMs} ms`;
    console.log(`${String(providers).padStart(7)}  all join: at once ${ms} ms${oneByOne}`);
  }
  printFew(few);
  const mapLookupNs = calibrate();
  console.log(`        one look-up in a map of 100,000 addresses on this machine: ${mapLookupNs} ns`);
  if (options.json) console.log(JSON.stringify({ decisions: rows, changes, buildAtOnce: joins, few, mapLookupNs }));
}

await runCommand(command, main);

import type { Address } from "viem";
import { HashRing } from "../../../gateway/routing/ring/hash-ring.ts";
import { MemberSlots } from "../../../gateway/routing/ring/member-slots.ts";
import { createPolicy, select } from "../../../gateway/routing/select.ts";
import { RoutingStatistics } from "../../../gateway/routing/statistics/routing-statistics.ts";
import { seeded, substream } from "../engine/random.ts";
import { Simulator } from "../engine/simulator.ts";
import { Backend, simModel } from "../model/backend.ts";
import { SimChain, simAddress } from "../model/chain.ts";
import { type Estimate, estimateOf } from "../report/estimate.ts";
import { shown, tableOf } from "../report/table.ts";
import { equalBackends } from "./fleet.ts";
import { atMost, type Scenario } from "./scenario.ts";

const sizes = [8, 64, 1000];
const keysLooked = 20_000;
/** Streams open per member when loads are compared; a multiple of 4, so that 1.25 times the mean is a whole number. */
const streamsPerMember = 100;

interface Figures {
  /** Root mean square of share / fair share - 1. */
  readonly shareError: number;
  readonly greatestShare: number;
  /** Keys moved by one join (leave), over the fair part of the keys. */
  readonly movedByJoin: number;
  readonly movedByLeave: number;
  /** Keys that moved from or to somebody else than the member that came or went. */
  readonly movedAstray: number;
  /** Most streams at a member over the mean. */
  readonly unbounded: number;
  readonly bounded: number;
  readonly skewedUnbounded: number;
  readonly skewedBounded: number;
}

/** Shares of the ring, keys that move, and what bounded loads make of it. */
export const ringShares: Scenario = (options) => {
  const bySize = sizes.map((size) => {
    options.log(`${size} members`);
    return options.seeds.map((seed) =>
      figuresOf(size, seed, 4 * Math.max(1, Math.round((streamsPerMember * options.scale) / 4))),
    );
  });
  const names: readonly (readonly [keyof Figures, string])[] = [
    ["shareError", "share error (rms)"],
    ["greatestShare", "greatest share / fair"],
    ["movedByJoin", "moved by join / fair"],
    ["movedByLeave", "moved by leave / fair"],
    ["movedAstray", "moved astray"],
    ["unbounded", "max load / mean, unbounded"],
    ["bounded", "bounded"],
    ["skewedUnbounded", "skewed keys, unbounded"],
    ["skewedBounded", "bounded "],
  ];
  const estimate = (index: number, metric: keyof Figures): Estimate =>
    estimateOf((bySize[index] ?? []).map((figures) => figures[metric]));
  return {
    scenario: "d",
    title: "Shares on the ring of 150 virtual nodes, keys moved, bounded loads",
    seeds: options.seeds.length,
    tables: [
      tableOf(
        ["", ...sizes.map((size) => `${size} members`)],
        names.map(([metric, title]) => [title, ...sizes.map((_, index) => shown(estimate(index, metric), 3))]),
      ),
    ],
    charts: [
      {
        file: "d-loads.svg",
        title: "Most streams at a member over the mean",
        xLabel: "members",
        yLabel: "max / mean",
        xNames: sizes.map(String),
        logY: true,
        series: (["unbounded", "bounded", "skewedUnbounded", "skewedBounded"] as const).map((metric) => ({
          name: {
            unbounded: "unbounded",
            bounded: "bounded",
            skewedUnbounded: "skewed, unbounded",
            skewedBounded: "skewed, bounded",
          }[metric],
          points: sizes.map((_, index) => [index, estimate(index, metric).mean] as const),
          errors: sizes.map((_, index) => estimate(index, metric).ci95),
        })),
      },
    ],
    checks: sizes.flatMap((size, index) => [
      atMost(
        `bounded load over the mean, ${size} members`,
        Math.max(...(bySize[index] ?? []).map(({ bounded }) => bounded)),
        1.25,
      ),
      atMost(
        `bounded load over the mean, skewed keys, ${size} members`,
        Math.max(...(bySize[index] ?? []).map(({ skewedBounded }) => skewedBounded)),
        1.25,
      ),
      atMost(`keys moved astray, ${size} members`, estimate(index, "movedAstray").mean, 0),
    ]),
    figures: {
      sizes,
      ...Object.fromEntries(names.map(([metric]) => [metric, sizes.map((_, index) => estimate(index, metric))])),
    },
  };
};

function figuresOf(size: number, seed: number, perMember: number): Figures {
  // Other addresses in each seed, because the ring depends on nothing else.
  const first = 1_000_000 * seed;
  const members = Array.from({ length: size }, (_, index) => simAddress(first + index));
  const slots = new MemberSlots();
  const ring = ringOf(undefined, slots, members, []);
  const shares = [...ring.shares().values()].map((share) => share * size);
  const random = seeded(seed);
  const positions = Array.from({ length: keysLooked }, () => Math.floor(random() * 2 ** 32));
  const newcomer = simAddress(first + size);
  const leaver = members[seed % size] as Address;
  const joined = moves(ring, ringOf(ring, slots, [newcomer], []), positions, newcomer);
  const left = moves(ring, ringOf(ring, slots, [], [leaver]), positions, leaver);
  const load = (factor: number, skew: number): number => greatestLoad(size, seed, factor, skew, perMember);
  return {
    shareError: Math.sqrt(shares.reduce((sum, share) => sum + (share - 1) ** 2, 0) / size),
    greatestShare: Math.max(...shares),
    movedByJoin: (joined.moved / keysLooked) * (size + 1),
    movedByLeave: (left.moved / keysLooked) * size,
    movedAstray: joined.astray + left.astray,
    unbounded: load(1e9, 0),
    bounded: load(1.25, 0),
    skewedUnbounded: load(1e9, 0.8),
    skewedBounded: load(1.25, 0.8),
  };
}

function ringOf(previous: HashRing | undefined, slots: MemberSlots, add: Address[], remove: Address[]): HashRing {
  const ring = HashRing.change(previous, slots, { add, remove });
  if (ring === undefined) throw new Error("the ring has no members");
  return ring;
}

function moves(
  before: HashRing,
  after: HashRing,
  positions: readonly number[],
  changed: Address,
): { moved: number; astray: number } {
  let moved = 0;
  let astray = 0;
  for (const position of positions) {
    const from = before.walk(position).next();
    const to = after.walk(position).next();
    if (from === to) continue;
    moved += 1;
    if (from !== changed && to !== changed) astray += 1;
  }
  return { moved, astray };
}

/** Opens streams of the real policy one after the other and never ends one: the most at a member over the mean. */
function greatestLoad(size: number, seed: number, loadFactor: number, skew: number, perMember: number): number {
  const simulator = new Simulator();
  const backends = equalBackends(size, { slots: 0 }).map(
    (backend, index) => new Backend({ ...backend, address: simAddress(1_000_000 * seed + index) }, simulator),
  );
  const { published } = new SimChain(backends);
  const statistics = new RoutingStatistics({ clock: simulator });
  const policy = createPolicy({ name: "consistent_hash", load_factor: loadFactor, load_margin: 0 });
  const random = substream(seed, `keys ${skew}`);
  const counts = new Map<Address, number>();
  const total = size * perMember;
  for (let index = 0; index < total; index += 1) {
    // With skew, few keys are asked for often: rank r with a probability in proportion to r^-0.8.
    const key = skew === 0 ? index : Math.floor(total * random() ** (1 / (1 - skew)));
    const request = {
      modelId: simModel,
      inputTokens: 100,
      outputTokens: 100,
      affinityKey: `key ${seed} ${key}`,
      routingText: "",
      elapsedMs: 0,
      tried: new Set<Address>(),
      maxPrice: undefined,
    };
    const [chosen] = select(published, request, policy, statistics, 0, random).ranked;
    if (chosen === undefined) throw new Error("nobody was chosen");
    statistics.acquire(chosen.provider, chosen.generation, chosen.modelId);
    counts.set(chosen.provider, (counts.get(chosen.provider) ?? 0) + 1);
  }
  return (Math.max(...counts.values()) * size) / total;
}

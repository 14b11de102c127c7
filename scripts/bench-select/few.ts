import { noWeights } from "../../chain/registry-index/client-weights.ts";
import type { ProviderRecord } from "../../chain/registry-index/types.ts";
import type { EscrowPolicy } from "../../gateway/jobs/escrow-plan.ts";
import { jobCollateral } from "../../gateway/jobs/job-collateral.ts";
import { parseCompletionRequest } from "../../gateway/openai/completion-request.ts";
import { createPolicy, select } from "../../gateway/routing/select.ts";
import { deriveRoutingState } from "../../gateway/routing/state.ts";
import { RoutingStatistics } from "../../gateway/routing/statistics/routing-statistics.ts";
import { policyNames, type RoutingRequest } from "../../gateway/routing/types.ts";
import { seeded } from "../sim/engine/random.ts";
import { addressOf, model, providerOf, Registry } from "./market.ts";

/** What keeps all providers but three from serving the request. */
const obstacles = ["context", "stake", "stake by context", "endpoint"] as const;
type Obstacle = (typeof obstacles)[number];

/** The cost of one policy's decisions where few fit. */
export interface FewRow {
  readonly providers: number;
  readonly obstacle: Obstacle;
  readonly prices: "one" | "distinct";
  readonly policy: string;
  /** Of processor time, which what other processes do leaves as it is. */
  readonly medianUs: number;
  /** Of the slowest tenth the fastest. */
  readonly slowUs: number;
}

const warmUp = 20;
const decisions = 100;
const outputTokens = 256;

const escrow: EscrowPolicy = {
  defaultMaxOutputTokens: 16_384,
  headroomRatio: 0.2,
  unsignedLimitRatio: 0.5,
  maxPerJob: undefined,
  minPayment: 1n,
  collateralBps: 10_000,
};

/** Characters of the prompt: four make a token. A prompt of 10,000 tokens is too long for the short contexts of `stake by context`. */
const promptLengths: Readonly<Record<Obstacle, number>> = {
  context: 400_000,
  stake: 2000,
  "stake by context": 40_000,
  endpoint: 2000,
};

const longContext = 200_000;
const shortContext = 8192;

function requestFor(obstacle: Obstacle): RoutingRequest {
  const content = "word".repeat(promptLengths[obstacle] / 4);
  const body = JSON.stringify({ model, messages: [{ role: "user", content }] });
  const completion = parseCompletionRequest("chat", new TextEncoder().encode(body));
  return {
    modelId: model,
    inputTokens: completion.inputTokensEstimate,
    outputTokens,
    affinityKey: undefined,
    routingText: "",
    elapsedMs: 0,
    tried: new Set(),
    maxPrice: undefined,
    collateral: jobCollateral(completion, escrow),
  };
}

/** Three that lie far apart. */
function fits(index: number, count: number): boolean {
  return index % Math.max(1, Math.floor(count / 3)) === 1;
}

function recordsOf(count: number, obstacle: Obstacle, prices: FewRow["prices"], request: RoutingRequest) {
  const random = seeded(17);
  return Array.from({ length: count }, (_, index): ProviderRecord => {
    const address = addressOf(index + 1);
    const price = 10n ** 12n + (prices === "one" ? 0n : BigInt(Math.floor(random() * 1e12)));
    const isLong = obstacle !== "context" && (obstacle !== "stake by context" || index % 3 !== 0);
    const contextLength = isLong || fits(index, count) ? longContext : shortContext;
    const terms = { inputPrice: price, outputPrice: 3n * price };
    const needed = request.collateral?.at({ ...terms, contextLength: longContext }) ?? 0n;
    const isShort = obstacle.startsWith("stake") && !fits(index, count);
    return providerOf(address, {
      ...terms,
      contextLength,
      lastSeen: 1_000_000,
      maxConcurrentJobs: 4,
      openJobs: 0,
      stake: isShort ? (needed * 9n) / 10n : 4n * needed,
      reputation: {
        time: 1_000_000,
        halfLifeSeconds: 604_800,
        paid: noWeights,
        failed: noWeights,
        ownServed: 30,
        ownFaults: 0,
      },
    });
  });
}

function statisticsOf(records: readonly ProviderRecord[], obstacle: Obstacle): RoutingStatistics {
  const statistics = new RoutingStatistics({ clock: { monotonic: () => 0 } });
  records.forEach(({ address: provider, maxConcurrentJobs }, index) => {
    const rates = { lastMeanInputTps: 1000 + index, maxInputTps: 2000 + index };
    statistics.report(provider, {
      provider,
      issuedAt: 1,
      draining: false,
      maxConcurrentJobs,
      running: 0,
      models: [{ model, generation: "g", running: 0, ...rates }],
    });
    statistics.setEndpointRefused(provider, obstacle === "endpoint" && !fits(index, records.length));
  });
  return statistics;
}

/** What decisions cost where three of many providers fit, by what keeps the others from it. @param count Providers. */
export function measureFew(count: number): FewRow[] {
  const rows: FewRow[] = [];
  for (const obstacle of obstacles) {
    for (const prices of ["one", "distinct"] as const) {
      const request = requestFor(obstacle);
      const records = recordsOf(count, obstacle, prices, request);
      const registry = new Registry();
      for (const record of records) registry.records.set(record.address, record);
      const delta = { providers: new Set(registry.records.keys()), models: new Set([model]) };
      const derived = deriveRoutingState(registry.snapshot(), delta, undefined);
      const published = { snapshot: derived.snapshot, derived };
      const statistics = statisticsOf(records, obstacle);
      for (const name of policyNames) {
        if (name === "manual") continue;
        const policy = createPolicy({ name });
        const random = seeded(7);
        const times: number[] = [];
        for (let index = -warmUp; index < decisions; index += 1) {
          const conversation = `conversation ${index}`;
          const asked = { ...request, affinityKey: conversation, routingText: conversation };
          const start = process.cpuUsage();
          const { verdict } = select(published, asked, policy, statistics, 1, random);
          const { user, system } = process.cpuUsage(start);
          if (index >= 0) times.push(user + system);
          // Where more are refused than a decision looks at, it may have to look again.
          if (verdict !== "ready" && obstacle !== "endpoint") throw new Error(`${name} found nobody: ${obstacle}`);
        }
        const sorted = times.toSorted((a, b) => a - b);
        const at = (share: number): number => sorted[Math.floor(share * sorted.length)] ?? Number.NaN;
        rows.push({ providers: count, obstacle, prices, policy: name, medianUs: at(0.5), slowUs: at(0.9) });
      }
    }
  }
  return rows;
}

const labels: Readonly<Record<Obstacle, string>> = {
  context: "context holds the prompt of three",
  stake: "stake covers the job of three",
  "stake by context": "the same, all others' for short contexts",
  endpoint: "endpoint is not refused of three",
};

/** Prints a line for each obstacle and price, with the median and the slowest tenth of each policy. */
export function printFew(rows: readonly FewRow[]): void {
  for (const obstacle of obstacles) {
    for (const prices of ["one", "distinct"] as const) {
      const line = rows.filter((row) => row.obstacle === obstacle && row.prices === prices);
      if (line[0] === undefined) continue;
      console.log(
        `${String(line[0].providers).padStart(7)}  ${labels[obstacle]}, ${prices === "one" ? "one price" : "distinct prices"}`,
      );
      for (const { policy, medianUs, slowUs } of line) {
        const [median, slow] = [medianUs, slowUs].map((us) => String(us).padStart(6));
        console.log(`         ${policy.padEnd(26)} ${median} us/decision   slowest tenth ${slow} us`);
      }
    }
  }
}

import { join } from "node:path";
import { createInterface } from "node:readline";
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { ProgressEvent } from "../../protocol/progress.ts";
import { runCommand, toggle, type Values, wholeNumber } from "../command-line.ts";
import { repositoryRoot } from "../network/chain-process.ts";
import { inheritedEnvironment } from "../network/child-process.ts";
import { jobEvents } from "../network/job-events.ts";
import { type LocalNetwork, startLocalNetwork } from "../network/local-network.ts";
import { oneToken } from "../network/specification.ts";
import { type LoadResult, runLoad } from "./load.ts";
import { processCpuMicros } from "./process-cpu.ts";
import { median, percentile } from "./statistics.ts";

const benchModel = "bench/model";
const streamTokens = 50;

interface Figures {
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly firstByteP50Ms: number;
  readonly firstByteP99Ms: number;
  readonly failures: number;
}

interface Shape {
  readonly name: string;
  readonly unit: string;
  readonly stream: boolean;
  readonly maxTokens: number;
}

const shapes: readonly Shape[] = [
  { name: "JSON answer", unit: "requests/s", stream: false, maxTokens: streamTokens },
  { name: `stream of ${streamTokens} chunks`, unit: "streams/s", stream: true, maxTokens: streamTokens },
];

const command = {
  name: "npm run bench --",
  about: `Prints what gateway and provider cost per request and per stream on a chain that mines at once, beside a plain Node proxy to the same
backend, interleaved in one run on one machine. Ratios are what to read; absolute figures are this machine's. Exits with 1 when a
request failed.`,
  options: {
    requests: wholeNumber({ about: "requests of a round, of each shape, at each of the two", fallback: 150, least: 1 }),
    rounds: wholeNumber({ about: "rounds, of which the median counts", fallback: 3, least: 1 }),
    connections: wholeNumber({ about: "requests under way at a time", fallback: 16, least: 1 }),
    json: toggle("the last line of standard output is one JSON object with all figures"),
  },
  examples: ["--rounds 5 --connections 32 --json"],
};

async function main(options: Values<typeof command.options>): Promise<number> {
  const { requests, rounds, connections } = options;
  const say = (text: string): void => {
    process.stdout.write(`${text}\n`);
  };
  const network = await startLocalNetwork({
    providers: [
      {
        name: "provider-1",
        maxConcurrentJobs: 0,
        offerings: [
          {
            model: benchModel,
            backendModel: "tiny",
            inputPrice: oneToken,
            outputPrice: oneToken,
            contextLength: 32_768,
          },
        ],
      },
    ],
    backend: { engine: "text", models: ["tiny"] },
    gateways: [{ name: "gateway", port: 0, env: { T4T_LOG_LEVEL: "warn" } }],
    providerEnv: { T4T_LOG_LEVEL: "warn" },
  });
  try {
    const proxy = await startPlainProxy(network.backendUrl);
    try {
      const results: Record<string, { readonly plain: Figures; readonly t4t: Figures }> = {};
      const jobIds: string[] = [];
      for (const shape of shapes) {
        await measure(network, proxy, shape, { requests: connections * 2, connections });
        const pairs = [];
        for (let round = 0; round < rounds; round += 1) {
          const pair = await measure(network, proxy, shape, { requests, connections });
          pairs.push(pair);
          jobIds.push(...pair.jobIds);
        }
        results[shape.name] = {
          plain: middle(pairs.map(({ plain }) => plain)),
          t4t: middle(pairs.map(({ t4t }) => t4t)),
        };
      }
      const spent = await whatItIsSpentOn(network, jobIds.slice(-100));
      print(say, results, spent);
      if (options.json) say(JSON.stringify({ connections, requests, rounds, results, spentMs: spent }));
      return Object.values(results).every(({ plain, t4t }) => plain.failures + t4t.failures === 0) ? 0 : 1;
    } finally {
      proxy.stop();
    }
  } finally {
    await network.stop();
  }
}

async function startPlainProxy(
  upstream: string,
): Promise<{ readonly url: string; readonly pid: number; stop(): void }> {
  const child = spawn(process.execPath, [join(repositoryRoot, "scripts", "bench", "plain-proxy.ts"), upstream], {
    env: inheritedEnvironment(),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout });
  const [port] = (await once(lines, "line")) as [string];
  return { url: `http://127.0.0.1:${port}`, pid: child.pid ?? -1, stop: () => void child.kill("SIGKILL") };
}

/** One round: the plain proxy, then ours, the same requests. */
async function measure(
  network: LocalNetwork,
  proxy: { readonly url: string; readonly pid: number },
  shape: Shape,
  load: { readonly requests: number; readonly connections: number },
): Promise<{ readonly plain: Figures; readonly t4t: Figures; readonly jobIds: readonly string[] }> {
  const body = (model: string): string =>
    JSON.stringify({
      model,
      messages: [{ role: "user", content: "Describe the life of one job in a few words." }],
      max_tokens: shape.maxTokens,
      ignore_eos: true,
      stream: shape.stream,
      seed: 1,
    });
  const request = { path: "/v1/chat/completions", endsWith: shape.stream ? "data: [DONE]" : "}", ...load };
  const plain = await withCpu(
    [proxy.pid],
    async () => await runLoad({ ...request, origin: proxy.url, body: body("tiny") }),
  );
  const gateway = network.gateways[0];
  const provider = network.providers[0];
  if (gateway === undefined || provider === undefined) throw new Error("the network is incomplete");
  const t4t = await withCpu(
    [gateway.child.pid, provider.child.pid],
    async () => await runLoad({ ...request, origin: gateway.url, body: body(benchModel) }),
  );
  return { plain: figures(plain), t4t: figures(t4t), jobIds: t4t.result.jobIds };
}

interface Measured {
  readonly result: LoadResult;
  readonly cpuMicros: number;
}

async function withCpu(pids: readonly number[], work: () => Promise<LoadResult>): Promise<Measured> {
  const used = (): number => pids.reduce((sum, pid) => sum + processCpuMicros(pid), 0);
  const before = used();
  const result = await work();
  return { result, cpuMicros: used() - before };
}

function figures({ result, cpuMicros }: Measured): Figures {
  return {
    perSecond: result.requests / result.seconds,
    cpuMicros: cpuMicros / Math.max(1, result.requests),
    firstByteP50Ms: percentile(result.firstByteMs, 0.5),
    firstByteP99Ms: percentile(result.firstByteMs, 0.99),
    failures: result.failures,
  };
}

/** The middle of the rounds, figure by figure. */
function middle(rounds: readonly Figures[]): Figures {
  const of = (key: keyof Figures): number => median(rounds.map((round) => round[key]));
  return {
    perSecond: of("perSecond"),
    cpuMicros: of("cpuMicros"),
    firstByteP50Ms: of("firstByteP50Ms"),
    firstByteP99Ms: of("firstByteP99Ms"),
    failures: rounds.reduce((sum, { failures }) => sum + failures, 0),
  };
}

/** Steps of a job between two of its events. */
const steps = [
  ["selection", "selecting_provider", "provider_selected"],
  ["chain: post", "posting_job", "job_posted"],
  ["provider: check and acknowledge", "job_posted", "provider_acked"],
  ["backend: whole answer", "provider_acked", "delivered"],
  ["chain: settle (the client does not wait for it)", "delivered", "settled"],
] as const;

/** Median milliseconds of each step over some jobs, from the times of their events. */
async function whatItIsSpentOn(network: LocalNetwork, jobIds: readonly string[]): Promise<Record<string, number>> {
  const gateway = network.gateways[0];
  const samples = new Map<string, number[]>(steps.map(([name]) => [name, []]));
  for (const jobId of jobIds) {
    const at = new Map<string, number>();
    const timeout = AbortSignal.timeout(10_000);
    for await (const event of jobEvents(gateway?.url ?? "", jobId, { signal: timeout })) {
      const { at: time } = event as ProgressEvent & { readonly at?: number };
      if (time !== undefined) at.set(event.type, time);
      if (event.type === "settled" || event.type === "failed") break;
    }
    for (const [name, from, to] of steps) {
      const start = at.get(from);
      const end = at.get(to);
      if (start !== undefined && end !== undefined) samples.get(name)?.push(end - start);
    }
  }
  return Object.fromEntries([...samples].map(([name, values]) => [name, median(values)]));
}

function print(
  say: (text: string) => void,
  results: Readonly<Record<string, { readonly plain: Figures; readonly t4t: Figures }>>,
  spent: Readonly<Record<string, number>>,
): void {
  for (const [name, { plain, t4t }] of Object.entries(results)) {
    const unit = shapes.find((shape) => shape.name === name)?.unit ?? "";
    say("");
    say(name.padEnd(34) + "plain proxy".padStart(14) + "T4T".padStart(14) + "ratio".padStart(10));
    row(say, unit, plain.perSecond, t4t.perSecond);
    row(say, "CPU us a request (proxy / gateway + node)", plain.cpuMicros, t4t.cpuMicros);
    row(say, "first byte p50, ms", plain.firstByteP50Ms, t4t.firstByteP50Ms);
    row(say, "first byte p99, ms", plain.firstByteP99Ms, t4t.firstByteP99Ms);
    row(say, "failures", plain.failures, t4t.failures);
  }
  say("");
  say("What a request is spent on, median ms");
  for (const [name, value] of Object.entries(spent)) say(`  ${name.padEnd(52)}${value.toFixed(1).padStart(8)}`);
}

function row(say: (text: string) => void, name: string, plain: number, t4t: number): void {
  const ratio = plain === 0 ? "" : (t4t / plain).toFixed(2);
  say(name.padEnd(42).slice(0, 42) + plain.toFixed(1).padStart(10) + t4t.toFixed(1).padStart(14) + ratio.padStart(10));
}

await runCommand(command, main);

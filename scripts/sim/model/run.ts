import type { Address } from "viem";
import type { PolicyConfig } from "../../../gateway/routing/policy-config.ts";
import { createPolicy } from "../../../gateway/routing/select.ts";
import type { Policy } from "../../../gateway/routing/types.ts";
import { substream } from "../engine/random.ts";
import { Simulator } from "../engine/simulator.ts";
import { Backend, type BackendConfig } from "./backend.ts";
import { SimChain } from "./chain.ts";
import { RunRecorder } from "./recorder.ts";
import { type GatewayConfig, SimGateway } from "./sim-gateway.ts";
import { drawTrace, type LoadConfig } from "./trace.ts";

/** All of one run but its seed. */
export interface RunConfig {
  /** A configured policy, or one that exists only for comparison. */
  readonly policy: PolicyConfig | (() => Policy);
  readonly backends: readonly BackendConfig[];
  readonly load: LoadConfig;
  readonly gateway: Omit<GatewayConfig, "region">;
  /** Round trip between two regions, ms. */
  readonly roundTripMs: (a: number, b: number) => number;
  /** A block, and with it the slots that gateways see, every so many ms. */
  readonly blockMs: number;
  /** A status of each backend every so many ms, underway for `reportDelayMs` beside the way. */
  readonly heartbeatMs: number;
  readonly reportDelayMs: number;
}

/** What came of a run. */
export interface RunResult {
  readonly recorder: RunRecorder;
  readonly backends: readonly Backend[];
  readonly seconds: number;
}

/** Runs the real policy code against simulated backends. One gateway stands in each region. */
export function run(config: RunConfig, seed: number): RunResult {
  const simulator = new Simulator();
  const backends = config.backends.map((backend) => new Backend(backend, simulator));
  const byAddress = new Map<Address, Backend>(backends.map((backend) => [backend.config.address, backend]));
  const chain = new SimChain(backends);
  let end = 0;
  const ends = config.load.steps.map(({ seconds }) => {
    end += seconds * 1000;
    return end;
  });
  const recorder = new RunRecorder(ends);
  const gateways = Array.from({ length: config.load.regions }, (_, region) => {
    return new SimGateway(
      { ...config.gateway, region },
      simulator,
      chain,
      byAddress,
      typeof config.policy === "function" ? config.policy() : createPolicy(config.policy),
      substream(seed, `policy ${region}`),
      recorder,
      (backend) => config.roundTripMs(region, backend.config.region),
    );
  });
  planBlocks(simulator, chain, gateways, config.blockMs, end);
  planReports(simulator, config, backends, gateways, end);
  planArrivals(simulator, config, gateways, recorder, seed);
  simulator.runUntil(end + config.gateway.clientTimeoutMs + 60_000);
  return { recorder, backends, seconds: end / 1000 };
}

function planBlocks(
  simulator: Simulator,
  chain: SimChain,
  gateways: readonly SimGateway[],
  blockMs: number,
  end: number,
): void {
  const mine = (): void => {
    chain.mine(simulator.now());
    for (const gateway of gateways) gateway.indexed();
    if (simulator.now() < end + 60_000) simulator.after(blockMs, mine);
  };
  simulator.after(blockMs, mine);
}

function planReports(
  simulator: Simulator,
  config: RunConfig,
  backends: readonly Backend[],
  gateways: readonly SimGateway[],
  end: number,
): void {
  backends.forEach((backend, index) => {
    const report = (): void => {
      const status = backend.status();
      gateways.forEach((gateway, region) => {
        const wayMs = config.roundTripMs(region, backend.config.region) / 2;
        simulator.after(config.reportDelayMs + wayMs, () => gateway.statistics.report(backend.config.address, status));
      });
      if (simulator.now() < end + 60_000) simulator.after(config.heartbeatMs, report);
    };
    // Gateways know a first status of everybody when the load begins.
    for (const gateway of gateways) gateway.statistics.report(backend.config.address, backend.status());
    simulator.after((config.heartbeatMs * (index + 1)) / backends.length, report);
  });
}

function planArrivals(
  simulator: Simulator,
  config: RunConfig,
  gateways: readonly SimGateway[],
  recorder: RunRecorder,
  seed: number,
): void {
  const trace = drawTrace(config.load, seed);
  const planNext = (): void => {
    const next = trace.next();
    if (next.done === true) return;
    const request = next.value;
    simulator.at(request.atMs, () => {
      planNext();
      recorder.arrived(request);
      gateways[request.region]?.arrive(request);
    });
  };
  planNext();
}

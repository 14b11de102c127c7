import { systemClock } from "../chain/system-clock.ts";
import { onStopSignals, stopSignals } from "../protocol/stop-signals.ts";
import { type DemonstratedGateway, DemonstrationError, streamOneJob, waitInLine } from "./network/demonstration.ts";
import { startLocalNetwork, type LocalNetwork, type NetworkOptions } from "./network/local-network.ts";
import { demonstrationProviders, sharedModel, singleModel } from "./network/specification.ts";
import { requireBackend } from "./network/reachable.ts";
import { readStartOptions, StartOptionsError, startHelp, type StartOptions } from "./network/start-options.ts";
import { jsonStartOutput, type StartOutput, textStartOutput } from "./network/start-output.ts";

/** What a process of the network may take beyond the time for running answers: receipts, the journal. */
const stopMarginMs = 10_000;

/** A line in which a client may wait for less than an answer takes cannot be shown. */
const shortestShownWaitSeconds = 15;

/** From here on processes stop because they are told to. */
let isStopping = false;

/** `npm start`: the whole of T4T on one machine, a job through it, and then at the service of whoever has a client. */
async function main(): Promise<number> {
  let options: StartOptions;
  try {
    options = readStartOptions(process.argv.slice(2), process.env);
  } catch (error) {
    if (!(error instanceof StartOptionsError)) throw error;
    process.stderr.write(`npm start cannot go on:\n${error.message}\n`);
    return 2;
  }
  if (options.help) {
    process.stdout.write(startHelp);
    return 0;
  }
  const output = options.json ? jsonStartOutput() : textStartOutput();
  const stopRequested = new Promise<"stop">((resolve) => {
    // The hook on `exit` kills what runs. A terminal that is closed takes its processes along.
    const stopAtOnce = (): never => process.exit(130);
    onStopSignals(process, systemClock, { stop: () => resolve("stop"), stopAtOnce }, [...stopSignals, "SIGHUP"]);
  });
  let network: LocalNetwork;
  const starting = startNetwork(options, output);
  try {
    const first = await Promise.race([starting, stopRequested]);
    // The hook on `exit` kills what was started so far.
    if (first === "stop") process.exit(130);
    network = first;
  } catch (error) {
    process.stderr.write(`npm start cannot go on:\n  ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
  let drainSeconds = 0;
  void stopRequested.then(() => {
    ({ drainSeconds } = options);
  });
  try {
    output.ready(network);
    const broken = childLeft(network, output);
    broken.catch(() => undefined);
    const outcome = await Promise.race([demonstrate(network, options, output), stopRequested, broken]);
    if (outcome === "stop") return 130;
    if (!options.once) {
      output.staysUp(network, { model: sharedModel, needsKey: options.apiKey !== undefined });
      await Promise.race([stopRequested, broken]);
    }
    return 0;
  } catch (error) {
    process.stderr.write(`\nnpm start failed:\n  ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  } finally {
    isStopping = true;
    output.stopping(drainSeconds);
    await network.stop(options.drainSeconds * 1000 + stopMarginMs);
  }
}

/** Looks first whether a backend that was named is there: its absence should not cost half a minute to find out. */
async function startNetwork(options: StartOptions, output: StartOutput): Promise<LocalNetwork> {
  if (options.backendUrl !== undefined) await requireBackend(options.backendUrl);
  return await startLocalNetwork(networkOptions(options, output));
}

function networkOptions(options: StartOptions, output: StartOutput): NetworkOptions {
  return {
    providers: demonstrationProviders(options.backendModel),
    gateways: [{ name: "gateway", port: options.gatewayPort, env: options.gatewayEnv }],
    chainPort: options.chainPort,
    blockTimeMs: options.blockTimeMs,
    backend: {
      engine: options.engine,
      port: options.backendPort,
      models: [sharedModel, singleModel],
      tokenDelayMs: 15,
    },
    onStep: (text) => output.step(text),
    ...(options.rpcUrl === undefined ? {} : { rpcUrl: options.rpcUrl }),
    ...(options.funderKey === undefined ? {} : { funderKey: options.funderKey }),
    ...(options.deploymentFile === undefined ? {} : { deploymentFile: options.deploymentFile }),
    ...(options.backendUrl === undefined ? {} : { backendUrl: options.backendUrl }),
    ...(options.dataDir === undefined ? {} : { dataDir: options.dataDir }),
  };
}

async function demonstrate(network: LocalNetwork, options: StartOptions, output: StartOutput): Promise<"done"> {
  const url = network.gateways[0]?.url;
  if (url === undefined) throw new DemonstrationError("the network has no gateway");
  const gateway: DemonstratedGateway = { url, apiKey: options.apiKey ?? "not-needed-on-loopback" };
  const request = { prompt: "Tell me what a gateway does with a full provider.", maxTokens: 64 };
  output.scene("One client, one streamed answer");
  const job = await streamOneJob(gateway, { ...request, model: sharedModel }, output);
  output.jobDone(job);
  if (!options.once && options.waitSeconds >= shortestShownWaitSeconds) {
    output.scene("Two clients, one slot: the second waits in line");
    output.waited(await waitInLine(gateway, { ...request, model: singleModel }, output));
  }
  if (options.once) output.done(job);
  return "done";
}

/**
 * A local network without its chain, model or gateway is broken: say so, with the part's last words, instead of serving errors. A
 * provider that leaves is what the gateway is there to survive.
 */
async function childLeft(network: LocalNetwork, output: StartOutput): Promise<never> {
  const providers = new Set(network.providers.map(({ child }) => child));
  for (const child of providers) {
    child.exited.then(
      (how) => {
        if (!isStopping) output.step(`${child.name} stopped (${how}); the gateway goes on with the others`);
      },
      () => undefined,
    );
  }
  const needed = network.children.filter((child) => !providers.has(child));
  const [child, how] = await Promise.race(needed.map(async (part) => [part, await part.exited] as const));
  throw new DemonstrationError(`${child.name} stopped by itself (${how}); its last words:\n${child.tail()}`);
}

process.exitCode = await main();

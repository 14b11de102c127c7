import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Address, Hex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { type Deployment, readDeployment, writeDeployment } from "../../chain/deployment.ts";
import { deployContracts } from "../deploy.ts";
import { localFunderKey, type Participant, participant } from "./accounts.ts";
import { startChainProcess, repositoryRoot } from "./chain-process.ts";
import { type Child, inheritedEnvironment, startChild, waitForChild } from "./child-process.ts";
import { fundNetwork } from "./funding.ts";
import { keptDeployment, setAsideJournals } from "./kept-data.ts";
import { usablePort } from "./ports.ts";
import { httpReady } from "./rpc-ready.ts";
import { chainIdAt } from "./reachable.ts";
import { readTokenUnit, type TokenUnit } from "./token-unit.ts";
import type { ProviderSpecification } from "./specification.ts";

/** A local network: what is started, and what is used instead of an embedded part. */
export interface NetworkOptions {
  readonly providers: readonly ProviderSpecification[];
  /** An existing RPC in place of the embedded chain; then `funderKey` must hold ETH there. */
  readonly rpcUrl?: string;
  readonly funderKey?: Hex;
  /** Existing contracts; deployed when absent. */
  readonly deploymentFile?: string;
  /** An existing OpenAI-compatible backend in place of the embedded one. */
  readonly backendUrl?: string;
  readonly backend?: {
    /** Port on 127.0.0.1; 0, the default: a free one. */
    readonly port?: number;
    readonly engine: "auto" | "llama" | "text";
    readonly models: readonly string[];
    readonly tokenDelayMs?: number;
  };
  /** 0 picks a free port. */
  readonly chainPort?: number;
  /** One gateway per entry, each with a wallet of its own. */
  readonly gateways?: readonly {
    readonly name: string;
    readonly port: number;
    readonly env?: Readonly<Record<string, string>>;
  }[];
  /** 0 = a block per transaction. */
  readonly blockTimeMs?: number;
  /**
   * Kept when given; else a temporary folder that goes with the network. On a chain that lives on, a later run goes on with its
   * contracts and journals; those of an embedded chain, which ends with its run, are set aside.
   */
  readonly dataDir?: string;
  /** More `T4T_` variables for every provider node. */
  readonly providerEnv?: Readonly<Record<string, string>>;
  /** Wei of the token that each gateway holds in the escrow at least. */
  readonly gatewayDeposit?: bigint;
  /** Whether the token is a test token that the funder may print; by default only on the embedded chain. */
  readonly mayMint?: boolean;
  /** Told of each step, for a person who waits. */
  readonly onStep?: (text: string) => void;
}

/** A provider node of a running network. */
export interface RunningProvider {
  readonly specification: ProviderSpecification;
  readonly address: Address;
  readonly endpoint: string;
  readonly participant: Participant;
  readonly child: Child;
  /** Starts the same provider (same key, port and data) once more after its process has gone, with other variables on top. */
  restart(env?: Readonly<Record<string, string>>): Promise<RunningProvider>;
}

/** A gateway of a running network. */
export interface RunningGateway {
  readonly name: string;
  readonly url: string;
  readonly participant: Participant;
  readonly child: Child;
  restart(env?: Readonly<Record<string, string>>): Promise<RunningGateway>;
}

/** Handles of a running network. */
export interface LocalNetwork {
  readonly rpcUrl: string;
  readonly chainId: number;
  readonly deployment: Deployment;
  readonly deploymentFile: string;
  /** Unit of the payment token, for people. */
  readonly tokenUnit: TokenUnit;
  readonly backendUrl: string;
  readonly funder: Participant;
  readonly providers: readonly RunningProvider[];
  readonly gateways: readonly RunningGateway[];
  readonly dataDir: string;
  /** Output of each process, a file each. */
  readonly logDir: string;
  /** Processes that were started, in order of start. */
  readonly children: readonly Child[];
  /** Stops all parts, gateways first, and removes temporary data. @param graceMs Most that each part may take to drain. */
  stop(graceMs?: number): Promise<void>;
}

const readyTimeoutMs = 60_000;

/** Wei of the token that each provider stakes: what all its open jobs together may be worth. */
const providerStake = 1_000_000_000n;

/** Starts chain, contracts, backend, provider nodes and gateways, each a process of its own; on any failure stops what was started. */
export async function startLocalNetwork(options: NetworkOptions): Promise<LocalNetwork> {
  const dataDir = options.dataDir === undefined ? await mkdtemp(join(tmpdir(), "t4t-")) : resolve(options.dataDir);
  const step = options.onStep ?? (() => undefined);
  const children: Child[] = [];
  const stop = async (graceMs = 10_000): Promise<void> => {
    for (const child of children.toReversed()) await child.stop(graceMs);
    if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
  };
  try {
    await mkdir(dataDir, { recursive: true });
    const gatewayOptions = options.gateways ?? [{ name: "gateway", port: 0 }];
    // Before anything is started: a taken port should not cost half a minute to find out.
    const gatewayPorts = await Promise.all(
      gatewayOptions.map(async ({ port }) => await usablePort("T4T_GATEWAY_PORT", port)),
    );
    const funderKey = options.funderKey ?? localFunderKey;
    const funder: Participant = { role: "funder", key: funderKey, account: privateKeyToAccount(funderKey) };
    const { rpcUrl, chainId } = await startOrFindChain(options, dataDir, children, step);
    const deploymentFile = options.deploymentFile ?? join(dataDir, "deployment.json");
    const folders = [...gatewayOptions, ...options.providers].map(({ name }) => join(dataDir, name));
    const deployment =
      options.deploymentFile === undefined
        ? await ownDeployment(
            { rpcUrl, key: funderKey, file: deploymentFile, folders, step },
            options.rpcUrl === undefined,
          )
        : await readDeployment(deploymentFile);
    const gatewayKeys = gatewayOptions.map(({ name }) => participant(funderKey, name));
    const providerKeys = options.providers.map(({ name }) => participant(funderKey, name));
    step("funding the wallets");
    await fundNetwork({
      rpcUrl,
      deployment,
      funderKey,
      gateways: gatewayKeys.map(({ account }) => account.address),
      providers: providerKeys.map(({ account }) => account.address),
      gatewayDeposit: options.gatewayDeposit ?? 1_000_000_000n,
      providerTokens: providerStake,
      mayMint: options.mayMint ?? options.deploymentFile === undefined,
    });
    const backendUrl = options.backendUrl ?? (await startBackendProcess(options, dataDir, children, step));

    const startProvider = async (
      specification: ProviderSpecification,
      key: Participant,
      port: number,
      env: Readonly<Record<string, string>>,
    ) => {
      const endpoint = `http://127.0.0.1:${port}`;
      const child = startChild({
        name: specification.name,
        args: [join(repositoryRoot, "provider", "main.ts")],
        cwd: repositoryRoot,
        logFile: join(dataDir, "logs", `${specification.name}.log`),
        env: {
          ...inheritedEnvironment(),
          ...(await providerEnvironment(specification, {
            rpcUrl,
            deploymentFile,
            dataDir,
            backendUrl,
            key,
            port,
            endpoint,
          })),
          ...options.providerEnv,
          ...specification.env,
          ...env,
        },
      });
      children.push(child);
      await ready(child, `${endpoint}/readyz`);
      const running: RunningProvider = {
        specification,
        address: key.account.address,
        endpoint,
        participant: key,
        child,
        restart: async (more = {}) => await startProvider(specification, key, port, { ...env, ...more }),
      };
      return running;
    };
    step(`starting ${options.providers.length} provider nodes`);
    const providers = await Promise.all(
      options.providers.map(async (specification, index) => {
        const port = await usablePort(`T4T_PROVIDER_PORT (${specification.name})`, specification.port ?? 0);
        return await startProvider(specification, providerKeys[index] as Participant, port, {});
      }),
    );

    const startGateway = async (
      name: string,
      key: Participant,
      port: number,
      env: Readonly<Record<string, string>>,
    ) => {
      const url = `http://127.0.0.1:${port}`;
      const child = startChild({
        name,
        args: [join(repositoryRoot, "gateway", "main.ts")],
        cwd: repositoryRoot,
        logFile: join(dataDir, "logs", `${name}.log`),
        env: {
          ...inheritedEnvironment(),
          T4T_RPC_URL: rpcUrl,
          T4T_DEPLOYMENT_FILE: deploymentFile,
          T4T_DATA_DIR: join(dataDir, name),
          T4T_PRIVATE_KEY: key.key,
          T4T_GATEWAY_HOST: "127.0.0.1",
          T4T_GATEWAY_PORT: String(port),
          T4T_ALLOW_PRIVATE_ENDPOINTS: "true",
          T4T_CHAIN_POLL_MS: "100",
          ...env,
        },
      });
      children.push(child);
      await ready(child, `${url}/readyz`);
      const running: RunningGateway = {
        name,
        url,
        participant: key,
        child,
        restart: async (more = {}) => await startGateway(name, key, port, { ...env, ...more }),
      };
      return running;
    };
    step(gatewayOptions.length === 1 ? "starting the gateway" : `starting ${gatewayOptions.length} gateways`);
    const gateways = await Promise.all(
      gatewayOptions.map(async ({ name, env }, index) => {
        return await startGateway(name, gatewayKeys[index] as Participant, gatewayPorts[index] ?? 0, env ?? {});
      }),
    );
    return {
      rpcUrl,
      chainId,
      deployment,
      deploymentFile,
      tokenUnit: await readTokenUnit(rpcUrl, deployment.token),
      backendUrl,
      funder,
      providers,
      gateways,
      dataDir,
      logDir: join(dataDir, "logs"),
      children,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function ready(child: Child, url: string): Promise<void> {
  const abort = new AbortController();
  try {
    await waitForChild(child, httpReady(url, abort.signal), readyTimeoutMs);
  } finally {
    abort.abort(new Error("no longer waited for"));
  }
}

async function startOrFindChain(
  options: NetworkOptions,
  dataDir: string,
  children: Child[],
  step: (text: string) => void,
): Promise<{ readonly rpcUrl: string; readonly chainId: number }> {
  if (options.rpcUrl !== undefined) {
    step(`using the chain at ${new URL(options.rpcUrl).host}`);
    return { rpcUrl: options.rpcUrl, chainId: await chainIdAt(options.rpcUrl) };
  }
  step("starting a Hardhat chain");
  const port = await usablePort("T4T_CHAIN_PORT", options.chainPort ?? 0);
  const chain = await startChainProcess({
    port,
    logFile: join(dataDir, "logs", "chain.log"),
    blockTimeMs: options.blockTimeMs ?? 0,
  });
  children.push(chain.child);
  return chain;
}

/** Contracts that this network deploys, or has deployed in an earlier run on the same chain with the same data folder. */
async function ownDeployment(
  place: {
    readonly rpcUrl: string;
    readonly key: Hex;
    readonly file: string;
    /** Data folders of gateways and providers. */
    readonly folders: readonly string[];
    readonly step: (text: string) => void;
  },
  isNewChain: boolean,
): Promise<Deployment> {
  const { rpcUrl, key, file, folders, step } = place;
  const kept = isNewChain ? undefined : await keptDeployment(rpcUrl, file);
  if (kept !== undefined) {
    step(`using the contracts of ${file}`);
    return kept;
  }
  const aside = await setAsideJournals(folders);
  if (aside.length > 0)
    step(
      `${isNewChain ? "the chain of the last run is" : "the contracts of the last run are"} gone: its journals are in ${aside.join(", ")}`,
    );
  step("deploying ProviderRegistry and JobEscrow");
  const deployment = await deployContracts({ rpcUrl, key });
  await writeDeployment(file, deployment);
  return deployment;
}

async function startBackendProcess(
  options: NetworkOptions,
  dataDir: string,
  children: Child[],
  step: (text: string) => void,
): Promise<string> {
  const backend: NonNullable<NetworkOptions["backend"]> = options.backend ?? { engine: "auto", models: ["tiny"] };
  step("starting the embedded model");
  const port = await usablePort("T4T_BACKEND_PORT", backend.port ?? 0);
  const url = `http://127.0.0.1:${port}`;
  const child = startChild({
    name: "backend",
    args: [
      join(repositoryRoot, "scripts", "backend", "main.ts"),
      "--port",
      String(port),
      "--engine",
      backend.engine,
      ...backend.models.flatMap((model) => ["--model", model]),
      ...(backend.tokenDelayMs === undefined ? [] : ["--token-delay-ms", String(backend.tokenDelayMs)]),
      "--data-dir",
      join(dataDir, "backend"),
    ],
    env: inheritedEnvironment(),
    cwd: repositoryRoot,
    logFile: join(dataDir, "logs", "backend.log"),
  });
  children.push(child);
  await ready(child, `${url}/health`);
  const health = (await (await fetch(`${url}/health`)).json()) as { readonly engine: string };
  step(
    `the embedded model runs on the ${health.engine} engine${backend.engine === "auto" && health.engine === "text" ? `, as llama.cpp does not run here (${join(dataDir, "logs", "backend.log")} says why)` : ""}`,
  );
  return url;
}

async function providerEnvironment(
  specification: ProviderSpecification,
  place: {
    readonly rpcUrl: string;
    readonly deploymentFile: string;
    readonly dataDir: string;
    readonly backendUrl: string;
    readonly key: Participant;
    readonly port: number;
    readonly endpoint: string;
  },
): Promise<Record<string, string>> {
  const folder = join(place.dataDir, specification.name);
  await mkdir(folder, { recursive: true });
  const endpointsFile = join(folder, "endpoints.json");
  const file = {
    backends: [
      {
        name: "backend",
        url: specification.backendUrl ?? place.backendUrl,
        ...(specification.initialInputTps === undefined ? {} : { initialInputTps: specification.initialInputTps }),
      },
    ],
    offerings: specification.offerings.map((offering) => ({
      model: offering.model,
      backend: "backend",
      ...(offering.backendModel === undefined ? {} : { backendModel: offering.backendModel }),
      inputPrice: String(offering.inputPrice),
      outputPrice: String(offering.outputPrice),
      contextLength: offering.contextLength,
    })),
  };
  await writeFile(endpointsFile, `${JSON.stringify(file, null, 2)}\n`);
  return {
    T4T_RPC_URL: place.rpcUrl,
    T4T_DEPLOYMENT_FILE: place.deploymentFile,
    T4T_DATA_DIR: folder,
    T4T_PRIVATE_KEY: place.key.key,
    T4T_PROVIDER_HOST: "127.0.0.1",
    T4T_PROVIDER_PORT: String(place.port),
    T4T_ENDPOINT: place.endpoint,
    T4T_ENDPOINTS_FILE: endpointsFile,
    T4T_CHAIN_POLL_MS: "100",
    T4T_STAKE: String(providerStake),
    ...(specification.maxConcurrentJobs === undefined
      ? {}
      : { T4T_MAX_CONCURRENT_JOBS: String(specification.maxConcurrentJobs) }),
  };
}

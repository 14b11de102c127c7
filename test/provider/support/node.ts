import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import type { Address, Hex } from "viem";
import { writeDeployment } from "../../../chain/deployment.ts";
import { type ProviderSettings, readProviderSettings } from "../../../provider/settings/provider-settings.ts";
import { type ProviderDependencies, type RunningProvider, startProvider } from "../../../provider/start.ts";
import { type Market, testModel, testPrices } from "./market.ts";

/** What a test's node is made of. */
export interface TestNodeOptions {
  readonly market: Market;
  readonly backendUrl: string;
  readonly key: Hex;
  /** Kept across restarts of one provider; a fresh folder when absent. */
  readonly dataDir?: string;
  /** Variables on top of the defaults. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly dependencies?: ProviderDependencies;
}

/** A provider node in this process. */
export interface TestNode {
  readonly provider: RunningProvider;
  readonly url: string;
  readonly address: Address;
  readonly dataDir: string;
  readonly endpointsFile: string;
  close(): Promise<void>;
}

/** Writes the endpoints file of one backend and one model. */
export async function writeEndpoints(
  file: string,
  backendUrl: string,
  change: { readonly maxConcurrentJobs?: number; readonly offering?: object; readonly backend?: object } = {},
): Promise<void> {
  await writeFile(
    file,
    JSON.stringify({
      backends: [{ name: "local", url: backendUrl, ...change.backend }],
      offerings: [
        {
          model: testModel,
          backend: "local",
          inputPrice: String(testPrices.inputPrice),
          outputPrice: String(testPrices.outputPrice),
          contextLength: 4096,
          ...change.offering,
        },
      ],
      ...(change.maxConcurrentJobs === undefined ? {} : { maxConcurrentJobs: change.maxConcurrentJobs }),
    }),
  );
}

/** A folder for one provider's files. */
export async function newDataDir(): Promise<string> {
  return await mkdtemp(join(tmpdir(), "t4t-provider-"));
}

/** Variables of a test's node; writes deployment and endpoints file where they are not there. */
export async function nodeEnvironment(options: TestNodeOptions, dataDir: string): Promise<Record<string, string>> {
  const deploymentFile = join(dataDir, "deployment.json");
  const endpointsFile = join(dataDir, "endpoints.json");
  await writeDeployment(deploymentFile, options.market.deployment);
  if (options.environment?.T4T_ENDPOINTS_FILE === undefined && options.dataDir === undefined) {
    await writeEndpoints(endpointsFile, options.backendUrl);
  }
  return {
    T4T_RPC_URL: options.market.chain.rpcUrl,
    T4T_DEPLOYMENT_FILE: deploymentFile,
    T4T_DATA_DIR: dataDir,
    T4T_PRIVATE_KEY: options.key,
    T4T_PROVIDER_PORT: "0",
    T4T_ENDPOINTS_FILE: endpointsFile,
    T4T_CHAIN_POLL_MS: "20",
    T4T_STAKE: "100000000",
    T4T_DRAIN_SECONDS: "1",
    T4T_LOG_LEVEL: "silent",
    ...options.environment,
  };
}

/** Settings of a test's node. */
export async function nodeSettings(options: TestNodeOptions, dataDir: string): Promise<ProviderSettings> {
  return await readProviderSettings(await nodeEnvironment(options, dataDir));
}

/** Starts a node in this process. */
export async function startNode(options: TestNodeOptions): Promise<TestNode> {
  const dataDir = options.dataDir ?? (await newDataDir());
  const settings = await nodeSettings(options, dataDir);
  const provider = await startProvider(settings, {
    logger: pino({ level: settings.logLevel }),
    ...options.dependencies,
  });
  const { address } = provider;
  if (address === undefined) {
    await provider.close();
    throw new Error(`the node did not reach its chain: ${provider.notReady()}`);
  }
  return {
    provider,
    url: provider.url,
    address,
    dataDir,
    endpointsFile: join(dataDir, "endpoints.json"),
    close: async () => {
      await provider.close();
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
    },
  };
}

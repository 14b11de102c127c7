import { access, constants, readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { pathToFileURL } from "node:url";
import {
  type Abi,
  type Address,
  createPublicClient,
  createWalletClient,
  encodeDeployData,
  encodeFunctionData,
  getAddress,
  type Hex,
  http,
  isAddress,
  type PublicClient,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi, jobEscrowBytecode } from "../chain/abi/job-escrow.ts";
import { providerRegistryAbi, providerRegistryBytecode } from "../chain/abi/provider-registry.ts";
import { testTokenAbi, testTokenBytecode } from "../chain/abi/test-token.ts";
import { type Deployment, writeDeployment } from "../chain/deployment.ts";
import { parsePrivateKey } from "../protocol/setting-kinds.ts";
import { CommandLineError, type Option, runCommand, text, toggle, type Values, wholeNumber } from "./command-line.ts";

/** As most tokens that people pay with have them; prices of the local network are made for it. */
const testTokenDecimals = 6;

/** What the two contracts fix for ever. Amounts in the token's smallest unit, times in seconds. */
export interface DeploymentParameters {
  readonly minStake: bigint;
  /** Seconds after its last sign of life in which a provider counts as live. */
  readonly timeToLive: bigint;
  readonly unbondingPeriod: bigint;
  /** Stake that a job holds, in basis points of its largest payment. */
  readonly collateralBps: bigint;
  readonly minPayment: bigint;
  readonly minDuration: number;
  readonly maxDuration: number;
  readonly ackWindow: number;
  readonly responseWindow: number;
}

/**
 * For test networks: anybody may register, but a job is still covered by its provider's stake in full, so a provider needs stake of at
 * least the sum of its open jobs' largest payments.
 */
export const defaultParameters: DeploymentParameters = Object.freeze({
  minStake: 0n,
  timeToLive: 600n,
  unbondingPeriod: 604_800n,
  collateralBps: 10_000n,
  minPayment: 1n,
  minDuration: 30,
  maxDuration: 86_400,
  ackWindow: 30,
  responseWindow: 60,
});

/** Options of `deployContracts`. */
export interface DeployOptions {
  readonly rpcUrl: string;
  /** Pays for the deployment and owns the contracts. */
  readonly key: Hex;
  /** Payment token; a test token is deployed when absent. */
  readonly token?: Address;
  readonly parameters?: Partial<DeploymentParameters>;
  /** How often receipts are looked for, ms. */
  readonly pollMs?: number;
}

/** A transaction of the deployment failed on chain. */
export class DeployError extends Error {
  override readonly name = "DeployError";
}

async function hasCode(reader: PublicClient, address: Address): Promise<boolean> {
  return ((await reader.getCode({ address })) ?? "0x") !== "0x";
}

/** Deploys registry and escrow (and a test token where none is given) and lets the escrow take slots of the registry. */
export async function deployContracts(options: DeployOptions): Promise<Deployment> {
  const parameters: DeploymentParameters = { ...defaultParameters, ...options.parameters };
  const account = privateKeyToAccount(options.key);
  const transport = http(options.rpcUrl);
  const reader = createPublicClient({ transport, pollingInterval: options.pollMs ?? 50 });
  const wallet = createWalletClient({ account, transport });
  const chainId = await reader.getChainId();

  const send = async (
    what: string,
    to: Address | null,
    data: Hex,
  ): Promise<{ readonly address: Address; readonly blockNumber: number }> => {
    const hash = await wallet.sendTransaction({ chain: null, to, data });
    const receipt = await reader.waitForTransactionReceipt({ hash });
    if (receipt.status !== "success") throw new DeployError(`${what} was reverted (transaction ${hash})`);
    return {
      address: getAddress(receipt.contractAddress ?? to ?? account.address),
      blockNumber: Number(receipt.blockNumber),
    };
  };
  const deploy = (what: string, abi: Abi, bytecode: Hex, args: readonly unknown[]): ReturnType<typeof send> =>
    send(`the deployment of ${what}`, null, encodeDeployData({ abi, bytecode, args }));

  if (options.token !== undefined && !(await hasCode(reader, options.token)))
    throw new DeployError(
      `there is no contract at ${options.token}, which was named as the token, on chain ${chainId}`,
    );
  if ((await reader.getBalance({ address: account.address })) === 0n)
    throw new DeployError(`${account.address} has no ETH to deploy with on chain ${chainId}; send it some`);
  const token =
    options.token === undefined
      ? (await deploy("TestToken", testTokenAbi, testTokenBytecode, [testTokenDecimals])).address
      : options.token;
  const registry = await deploy("ProviderRegistry", providerRegistryAbi, providerRegistryBytecode, [
    token,
    account.address,
    {
      minStake: parameters.minStake,
      timeToLive: parameters.timeToLive,
      unbondingPeriod: parameters.unbondingPeriod,
      collateralBps: parameters.collateralBps,
    },
  ]);
  const escrow = await deploy("JobEscrow", jobEscrowAbi, jobEscrowBytecode, [
    registry.address,
    account.address,
    {
      minPayment: parameters.minPayment,
      minDuration: parameters.minDuration,
      maxDuration: parameters.maxDuration,
      ackWindow: parameters.ackWindow,
      responseWindow: parameters.responseWindow,
    },
  ]);
  const allow = encodeFunctionData({
    abi: providerRegistryAbi,
    functionName: "setMarket",
    args: [escrow.address, true],
  });
  await send("setMarket", registry.address, allow);
  return Object.freeze({
    chainId,
    registry: registry.address,
    escrow: escrow.address,
    token,
    deployedAtBlock: registry.blockNumber,
  });
}

/** An amount in the token's smallest unit. */
function amount(about: string, fallback: bigint): Option<bigint> {
  return {
    placeholder: "N",
    about,
    fallback,
    shownFallback: String(fallback),
    read: (given) => (/^\d{1,29}$/.test(given) ? { value: BigInt(given) } : { expected: "a whole number" }),
  };
}

/** A time that the contracts fix. */
function seconds(about: string, fallback: number | bigint): Option<number> {
  return wholeNumber({ placeholder: "S", about, fallback: Number(fallback), least: 0 });
}

const tokenAddress: Option<Address, undefined> = {
  placeholder: "ADDRESS",
  about: "payment token; a test token is deployed when absent",
  fallback: undefined,
  read: (given) => (isAddress(given) ? { value: given } : { expected: "an address with its checksum" }),
};

const command = {
  name: "npm run deploy --",
  about: `Deploys ProviderRegistry and JobEscrow and writes the deployment file that provider and gateway read. What the contracts fix, they fix
for ever; docs/contracts.md says what each means. Amounts are in the token's smallest unit, times in seconds.`,
  options: {
    rpc: text("URL", "the chain's RPC; required", undefined),
    "key-file": text(
      "FILE",
      "file of mode 0600 with the private key that pays and owns the contracts; required",
      undefined,
    ),
    token: tokenAddress,
    out: text("FILE", "deployment file; one that is there already is not overwritten", "deployment.json"),
    json: toggle("prints the deployment as one JSON line"),
    "min-stake": amount("smallest stake of an active provider", defaultParameters.minStake),
    "time-to-live": seconds("after which a provider without a sign of life is stale", defaultParameters.timeToLive),
    "unbonding-period": seconds("from the notice to the withdrawal of stake", defaultParameters.unbondingPeriod),
    "collateral-bps": amount(
      "stake held per job, in basis points of its largest payment",
      defaultParameters.collateralBps,
    ),
    "min-payment": amount("least that a job's largest payment may be", defaultParameters.minPayment),
    "min-duration": seconds("shortest time from the post of a job to its deadline", defaultParameters.minDuration),
    "max-duration": seconds("longest", defaultParameters.maxDuration),
    "ack-window": seconds("in which a provider acknowledges a job", defaultParameters.ackWindow),
    "response-window": seconds("in which it answers a cancel request", defaultParameters.responseWindow),
  },
  examples: ["--rpc https://rpc.example --key-file owner.key --token 0x5FbDB2315678afecb367f032d93F642f64180aa3"],
};

async function readKeyFile(path: string): Promise<Hex> {
  const { mode } = await stat(path).catch(() => {
    throw new CommandLineError([`--key-file: cannot read ${path}`]);
  });
  if (process.platform !== "win32" && (mode & 0o077) !== 0)
    throw new CommandLineError([`--key-file: others can read it; run: chmod 600 ${path}`]);
  const key = parsePrivateKey(await readFile(path, "utf8"));
  if (key === undefined)
    throw new CommandLineError([`--key-file: ${path} does not hold 64 hexadecimal digits and nothing else`]);
  return key;
}

/** Contracts whose file cannot be written would be paid for and lost; a file of other contracts would be lost by ours. */
async function requireWritable(out: string): Promise<void> {
  const exists = await access(out).then(
    () => true,
    () => false,
  );
  if (exists) throw new CommandLineError([`--out: ${out} is there already; name another file, or move it away`]);
  await access(dirname(out), constants.W_OK).catch(() => {
    throw new CommandLineError([`--out: ${dirname(out)} is not a folder that can be written to`]);
  });
}

async function main(values: Values<typeof command.options>): Promise<number> {
  const { rpc, token, out } = values;
  const keyFile = values["key-file"];
  const missing = [
    ...(rpc === undefined ? ["--rpc is missing: give --rpc URL"] : []),
    ...(keyFile === undefined ? ["--key-file is missing: give --key-file FILE"] : []),
  ];
  if (rpc === undefined || keyFile === undefined) throw new CommandLineError(missing);
  await requireWritable(out);
  const deployment = await deployContracts({
    rpcUrl: rpc,
    key: await readKeyFile(keyFile),
    ...(token === undefined ? {} : { token }),
    parameters: {
      minStake: values["min-stake"],
      timeToLive: BigInt(values["time-to-live"]),
      unbondingPeriod: BigInt(values["unbonding-period"]),
      collateralBps: values["collateral-bps"],
      minPayment: values["min-payment"],
      minDuration: values["min-duration"],
      maxDuration: values["max-duration"],
      ackWindow: values["ack-window"],
      responseWindow: values["response-window"],
    },
    pollMs: 500,
  });
  try {
    await writeDeployment(out, deployment);
  } catch (error) {
    // The contracts are there and paid for: their addresses must not be lost with the file.
    process.stdout.write(`${JSON.stringify(deployment)}\n`);
    throw new DeployError(
      `the contracts are deployed, but ${out} could not be written (${error instanceof Error ? error.message : String(error)}); the line above is its content`,
    );
  }
  process.stdout.write(
    values.json
      ? `${JSON.stringify(deployment)}\n`
      : `deployed; wrote ${out}:\n${JSON.stringify(deployment, null, 2)}\n`,
  );
  return 0;
}

/** viem's whole message holds the bytecode; its short one says what was wrong. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return "shortMessage" in error && typeof error.shortMessage === "string" ? error.shortMessage : error.message;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  await runCommand(command, async (values) => {
    try {
      return await main(values);
    } catch (error) {
      if (error instanceof CommandLineError) throw error;
      process.stderr.write(`the deployment failed: ${describe(error)}\n`);
      return 1;
    }
  });
}

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { type Abi, createPublicClient, createWalletClient, type Hex, http, keccak256, maxUint256, toHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import { testTokenAbi } from "../../chain/abi/test-token.ts";
import { type Deployment, writeDeployment } from "../../chain/deployment.ts";
import { deployContracts } from "../../scripts/deploy.ts";
import { startAnvil, type TestChain } from "../support/chain.ts";

const script = fileURLToPath(new URL("../../scripts/inspect.ts", import.meta.url));

describe("the inspect script", function () {
  this.timeout(30_000);
  let chain: TestChain;
  let directory: string;
  let deployment: Deployment;
  let inspect: (...args: readonly string[]) => Promise<{ code: number; stdout: string; stderr: string }>;

  before(async () => {
    chain = await startAnvil();
    directory = await mkdtemp(join(tmpdir(), "t4t-inspect-"));
    const file = join(directory, "deployment.json");
    deployment = await deployContracts({ rpcUrl: chain.rpcUrl, key: chain.account(0).key, pollMs: 20 });
    await writeDeployment(file, deployment);
    const account = privateKeyToAccount(chain.account(1).key);
    const wallet = createWalletClient({ account, transport: http(chain.rpcUrl) });
    await wallet.writeContract({
      address: deployment.registry,
      abi: providerRegistryAbi,
      functionName: "register",
      args: [account.address, account.address, "https://node.provider.example/v1", 0n],
      chain: null,
    });
    inspect = async (...args) => {
      const command = [script, ...args, "--rpc", chain.rpcUrl, "--deployment", file];
      try {
        return { code: 0, ...(await promisify(execFile)(process.execPath, command)) };
      } catch (error) {
        return error as { code: number; stdout: string; stderr: string };
      }
    };
  });
  after(async () => {
    await chain.stop();
    await rm(directory, { recursive: true, force: true });
  });

  it("shows a provider, for people and for machines", async () => {
    const { address } = chain.account(1);
    expect((await inspect("provider", address)).stdout).to.match(/^endpoint +https:\/\/node.provider.example\/v1$/m);
    const { stdout } = await inspect("provider", address, "--json");
    expect(JSON.parse(stdout)).to.deep.include({ owner: address, active: true, openJobs: 0, maxConcurrentJobs: 0 });
  });

  it("shows a job with its terms, its state and times that people read", async () => {
    const { jobId, client, provider, deadline } = await postJob();
    const shown = (await inspect("job", jobId)).stdout;
    for (const line of [
      /^status +Open$/m,
      /^maxPayment +5000$/m,
      /^unsignedLimit +2000$/m,
      /^inputPrice +150000$/m,
      /^outputPrice +600000$/m,
      new RegExp(`^client +${client}$`, "m"),
      new RegExp(`^provider +${provider}$`, "m"),
      new RegExp(`^deadline +${new Date(deadline * 1000).toISOString()}$`, "m"),
    ]) {
      expect(shown).to.match(line);
    }
    const { stdout } = await inspect("job", jobId, "--json");
    expect(JSON.parse(stdout)).to.deep.include({ jobId, status: "Open", client, provider, maxPayment: "5000" });
  });

  it("shows of a completed job, whose row is emptied, what its events say, and no zeros", async () => {
    const { jobId, client, provider, deadline } = await postJob(8n);
    const account = privateKeyToAccount(chain.account(3).key);
    const wallet = createWalletClient({ account, transport: http(chain.rpcUrl) });
    const responseHash = keccak256("0x12");
    const hash = await wallet.writeContract({
      address: deployment.escrow,
      abi: jobEscrowAbi,
      functionName: "completeJob",
      args: [jobId, { inputTokens: 1_000n, outputTokens: 1_000n }, responseHash, "0x"],
      chain: null,
    });
    const { status } = await createPublicClient({
      transport: http(chain.rpcUrl),
      pollingInterval: 20,
    }).waitForTransactionReceipt({ hash });
    expect(status).to.equal("success");
    const shown = JSON.parse((await inspect("job", jobId, "--json")).stdout) as Record<string, unknown>;
    expect(shown).to.deep.include({
      jobId,
      status: "Completed",
      client,
      provider,
      maxPayment: "5000",
      unsignedLimit: "2000",
      deadline: new Date(deadline * 1000).toISOString(),
      payment: "750",
      inputTokens: "1000",
      outputTokens: "1000",
      signed: false,
      completedBy: hash,
    });
    expect(JSON.stringify(shown)).to.not.include("1970-");
  });

  it("says that there is no such provider or job instead of showing zeros", async () => {
    expect(await inspect("provider", chain.account(2).address)).to.deep.include({ code: 1 });
    const { code, stderr } = await inspect("job", `0x${"12".repeat(32)}`);
    expect([code, stderr]).to.deep.equal([1, `no job 0x${"12".repeat(32)}\n`]);
  });

  /** A job of account 2 with a provider of account 3. */
  async function postJob(nonce = 7n): Promise<{ jobId: Hex; client: string; provider: string; deadline: number }> {
    const reader = createPublicClient({ transport: http(chain.rpcUrl), pollingInterval: 20 });
    const [client, provider] = [chain.account(2), chain.account(3)].map(({ key }) => privateKeyToAccount(key));
    if (client === undefined || provider === undefined) throw new Error("the chain has no accounts");
    const send = async (
      account: typeof client,
      contract: "registry" | "escrow" | "token",
      functionName: string,
      args: readonly unknown[],
    ) => {
      const abi = { registry: providerRegistryAbi, escrow: jobEscrowAbi, token: testTokenAbi }[contract] as Abi;
      const wallet = createWalletClient({ account, transport: http(chain.rpcUrl) });
      const hash = await wallet.writeContract({ address: deployment[contract], abi, functionName, args, chain: null });
      const { status } = await reader.waitForTransactionReceipt({ hash });
      expect(status, functionName).to.equal("success");
    };
    for (const [account, spender] of [
      [client, deployment.escrow],
      [provider, deployment.registry],
    ] as const) {
      await send(account, "token", "mint", [account.address, 1_000_000n]);
      await send(account, "token", "approve", [spender, maxUint256]);
    }
    const { address } = provider;
    const isNew = (await reader.getTransactionCount({ address })) < 3;
    if (isNew) {
      await send(provider, "registry", "register", [address, address, "https://second.provider.example/v1", 100_000n]);
      await send(provider, "registry", "setOffering", ["model", 150_000n, 600_000n, 4_096]);
    }
    await send(client, "escrow", "deposit", [10_000n]);
    const { timestamp } = await reader.getBlock();
    const deadline = Number(timestamp) + 600;
    const prices = { maxInputPrice: 150_000n, maxOutputPrice: 600_000n };
    const terms = {
      nonce,
      modelKey: keccak256(toHex("model")),
      maxPayment: 5_000n,
      unsignedLimit: 2_000n,
      ...prices,
      deadline,
    };
    await send(client, "escrow", "postJob", [address, terms]);
    const escrow = { address: deployment.escrow, abi: jobEscrowAbi } as const;
    const jobId = await reader.readContract({ ...escrow, functionName: "jobIdOf", args: [client.address, nonce] });
    return { jobId, client: client.address, provider: address, deadline };
  }

  it("refuses what is no address, no job id and no subject", async () => {
    for (const args of [
      ["provider", "0x12"],
      ["job", "0x12"],
      ["gateway", "0x12"],
    ]) {
      expect((await inspect(...args)).code, args.join(" ")).to.equal(2);
    }
  });
});

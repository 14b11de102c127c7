import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { createWalletClient, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import { writeDeployment } from "../../chain/deployment.ts";
import { deployContracts } from "../../scripts/deploy.ts";
import { startAnvil, type TestChain } from "../support/chain.ts";

const script = fileURLToPath(new URL("../../scripts/inspect.ts", import.meta.url));

describe("the inspect script", function () {
  this.timeout(30_000);
  let chain: TestChain;
  let directory: string;
  let inspect: (...args: readonly string[]) => Promise<{ code: number; stdout: string; stderr: string }>;

  before(async () => {
    chain = await startAnvil();
    directory = await mkdtemp(join(tmpdir(), "t4t-inspect-"));
    const file = join(directory, "deployment.json");
    const deployment = await deployContracts({ rpcUrl: chain.rpcUrl, key: chain.account(0).key, pollMs: 20 });
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

  it("says that there is no such provider or job instead of showing zeros", async () => {
    expect(await inspect("provider", chain.account(2).address)).to.deep.include({ code: 1 });
    const { code, stderr } = await inspect("job", `0x${"12".repeat(32)}`);
    expect([code, stderr]).to.deep.equal([1, `no job 0x${"12".repeat(32)}\n`]);
  });

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

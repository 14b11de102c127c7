import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { createPublicClient, http } from "viem";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import { type Deployment, readDeployment } from "../../chain/deployment.ts";
import { verifyChain } from "../../chain/verify.ts";
import { deployContracts } from "../../scripts/deploy.ts";
import { readTokenUnit } from "../../scripts/network/token-unit.ts";
import { startAnvil, startHardhatChain, type TestChain } from "../support/chain.ts";

const script = fileURLToPath(new URL("../../scripts/deploy.ts", import.meta.url));

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function deploy(...args: readonly string[]): Promise<Run> {
  try {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [script, ...args]);
    return { code: 0, stdout, stderr };
  } catch (error) {
    return error as Run;
  }
}

describe("the deploy script", function () {
  this.timeout(60_000);
  let chain: TestChain;
  let directory: string;
  let keyFile: string;

  before(async () => {
    chain = await startAnvil();
  });

  after(async () => {
    await chain.stop();
  });

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "t4t-deploy-"));
    keyFile = join(directory, "key");
    await writeFile(keyFile, chain.account(0).key, { mode: 0o600 });
  });

  afterEach(async () => {
    await rm(directory, { recursive: true });
  });

  it("writes a deployment file whose contracts belong together and may be used at once", async () => {
    const out = join(directory, "deployment.json");
    const run = await deploy(
      "--rpc",
      chain.rpcUrl,
      "--key-file",
      keyFile,
      "--out",
      out,
      "--json",
      "--time-to-live",
      "77",
    );
    expect(run.code, run.stderr).to.equal(0);
    const deployment = await readDeployment(out);
    expect(JSON.parse(run.stdout)).to.deep.equal(deployment);
    const client = createPublicClient({ transport: http(chain.rpcUrl) });
    expect(await verifyChain(client, deployment)).to.deep.equal(deployment);
    const registry = { address: deployment.registry, abi: providerRegistryAbi } as const;
    expect(await client.readContract({ ...registry, functionName: "isMarket", args: [deployment.escrow] })).to.equal(
      true,
    );
    expect(await client.readContract({ ...registry, functionName: "timeToLive" })).to.equal(77n);
    // The prices of the local network are those of a token of 6 decimals.
    expect(await readTokenUnit(chain.rpcUrl, deployment.token)).to.deep.equal({ symbol: "TTT", decimals: 6 });
  });

  it("uses an existing token when one is given", async () => {
    const first = await deployContracts({ rpcUrl: chain.rpcUrl, key: chain.account(0).key, pollMs: 10 });
    const second: Deployment = await deployContracts({
      rpcUrl: chain.rpcUrl,
      key: chain.account(0).key,
      token: first.token,
      pollMs: 10,
    });
    expect(second.token).to.equal(first.token);
    expect(second.registry).not.to.equal(first.registry);
  });

  for (const start of [startAnvil, startHardhatChain]) {
    it(`works where blocks come at intervals (${start === startAnvil ? "anvil" : "Hardhat"})`, async () => {
      const slow = await start({ blockTimeMs: 100 });
      const deployment = await deployContracts({ rpcUrl: slow.rpcUrl, key: slow.account(0).key, pollMs: 20 });
      expect(deployment.deployedAtBlock).to.be.greaterThan(0);
      await slow.stop();
    });
  }

  it("says what is wrong with its arguments, and never repeats the key", async () => {
    expect((await deploy()).stderr).to.match(/--rpc is missing/);
    expect((await deploy("--rpc", chain.rpcUrl, "--key-file", keyFile, "--min-stake", "-1")).stderr).to.match(
      /min-stake/,
    );
    await chmod(keyFile, 0o640);
    const open = await deploy("--rpc", chain.rpcUrl, "--key-file", keyFile);
    expect([open.code, open.stderr.includes("chmod 600")]).to.deep.equal([2, true]);
    await chmod(keyFile, 0o600);
    await writeFile(keyFile, `${await readFile(keyFile, "utf8")}99`);
    const bad = await deploy("--rpc", chain.rpcUrl, "--key-file", keyFile);
    expect(bad.code).to.equal(2);
    expect(bad.stderr).not.to.include(chain.account(0).key.slice(2, 12));
  });

  it("deploys nothing when the file of its addresses could not be written, or holds those of other contracts", async () => {
    const client = createPublicClient({ transport: http(chain.rpcUrl) });
    const { address } = chain.account(0);
    const before = await client.getTransactionCount({ address });
    const nowhere = await deploy(
      "--rpc",
      chain.rpcUrl,
      "--key-file",
      keyFile,
      "--out",
      join(directory, "no", "d.json"),
    );
    expect([nowhere.code, nowhere.stderr]).to.satisfy(
      ([code, text]: [number, string]) => code === 2 && /--out: .* is not a folder/.test(text),
    );
    const kept = join(directory, "kept.json");
    await writeFile(kept, "{}");
    const taken = await deploy("--rpc", chain.rpcUrl, "--key-file", keyFile, "--out", kept);
    expect(taken.stderr).to.match(/--out: .*kept\.json is there already/);
    expect(await readFile(kept, "utf8")).to.equal("{}");
    expect(await client.getTransactionCount({ address })).to.equal(before);
  });

  it("says in a line that a key has no ETH or that a token is none", async () => {
    const poor = join(directory, "poor");
    await writeFile(poor, `0x${"7".repeat(64)}`, { mode: 0o600 });
    const unfunded = await deploy("--rpc", chain.rpcUrl, "--key-file", poor, "--out", join(directory, "d.json"));
    expect(unfunded.stderr)
      .to.match(/has no ETH to deploy with/)
      .and.to.have.length.lessThan(300);
    const noToken = await deploy(
      "--rpc",
      chain.rpcUrl,
      "--key-file",
      keyFile,
      "--token",
      "0x000000000000000000000000000000000000dEaD",
      "--out",
      join(directory, "d.json"),
    );
    expect(noToken.stderr).to.match(/no contract at 0x0{36}dEaD, which was named as the token/);
  });

  it("fails with the reason when the chain cannot be reached", async () => {
    const run = await deploy("--rpc", "http://127.0.0.1:9", "--key-file", keyFile, "--out", join(directory, "d.json"));
    expect(run.code).to.equal(1);
    expect(run.stderr).to.match(/the deployment failed/);
  });
});

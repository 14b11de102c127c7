import { expect } from "chai";
import * as fc from "fast-check";
import { type Address, getAddress, zeroAddress } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import type { Deployment } from "../../chain/deployment.ts";
import { jobIdOf } from "../../chain/job-id.ts";
import { type ChainConnection, openChain } from "../../chain/rpc.ts";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import { systemClock } from "../../chain/system-clock.ts";
import { verifyChain, WrongChainError } from "../../chain/verify.ts";
import { startAnvil, type TestChain } from "../support/chain.ts";
import { deployForTest } from "../support/deployment.ts";
import { countingRpcProxy, type RpcProxy } from "../support/rpc-proxy.ts";

describe("the check of chain and contracts at start", function () {
  this.timeout(30_000);
  let chain: TestChain;
  let proxy: RpcProxy;
  let connection: ChainConnection;
  let deployment: Deployment;
  let other: Deployment;

  before(async () => {
    chain = await startAnvil();
    proxy = await countingRpcProxy(chain.rpcUrl);
    connection = openChain({ url: proxy.url, clock: systemClock, random: Math.random, attempts: 1 });
    deployment = await deployForTest(chain);
    other = await deployForTest(chain);
  });

  after(async () => {
    await connection.close();
    await proxy.stop();
    await chain.stop();
  });

  afterEach(() => proxy.setFault(undefined));

  async function refusal(change: Partial<Deployment>): Promise<string> {
    const error = await verifyChain(connection.client, { ...deployment, ...change }).catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(WrongChainError);
    return error instanceof Error ? error.message : "";
  }

  it("accepts one deployment and fills in what the settings left open", async () => {
    const target = { ...deployment, token: undefined, deployedAtBlock: undefined };
    expect(await verifyChain(connection.client, target)).to.deep.equal({ ...deployment, deployedAtBlock: 0 });
    expect(await verifyChain(connection.client, deployment)).to.deep.equal(deployment);
  });

  it("refuses another chain, an address without code, contracts of two deployments, and says which variable to look at", async () => {
    expect(await refusal({ chainId: 1 })).to.match(/T4T_RPC_URL.*31337.*T4T_CHAIN_ID/);
    expect(await refusal({ registry: getAddress(`0x${"12".repeat(20)}`) })).to.match(
      /no contract .*T4T_REGISTRY_ADDRESS/,
    );
    expect(await refusal({ escrow: chain.account(3).address })).to.match(/no contract .*T4T_ESCROW_ADDRESS/);
    expect(await refusal({ registry: other.registry })).to.match(/belongs to the registry .*T4T_DEPLOYMENT_FILE/);
    expect(await refusal({ escrow: deployment.token })).to.match(/no JobEscrow.*T4T_ESCROW_ADDRESS/);
    expect(await refusal({ token: other.token })).to.match(/token/);
  });

  it("tells a chain that is out of reach from a wrong one, so that a node waits instead of refusing", async () => {
    proxy.setFault(({ method }) => (method === "eth_call" ? { kind: "http", status: 502 } : undefined));
    const error = await verifyChain(connection.client, deployment).catch((reason: unknown) => reason);
    expect(error).not.to.be.instanceOf(WrongChainError);
    expect(chainUnavailableIn(error)?.method).to.equal("eth_call");
  });

  it("computes job ids as the escrow does", async () => {
    const address = fc
      .uint8Array({ minLength: 20, maxLength: 20 })
      .map((bytes): Address => getAddress(`0x${Buffer.from(bytes).toString("hex")}`));
    await fc.assert(
      fc.asyncProperty(address, fc.bigInt({ min: 0n, max: (1n << 256n) - 1n }), async (client, nonce) => {
        const args = [client, nonce] as const;
        const onChain = await connection.client.readContract({
          address: deployment.escrow,
          abi: jobEscrowAbi,
          functionName: "jobIdOf",
          args,
        });
        expect(jobIdOf(deployment.chainId, deployment.escrow, client, nonce)).to.equal(onChain);
      }),
      { numRuns: 20 },
    );
    expect(jobIdOf(1, zeroAddress, zeroAddress, 0n)).not.to.equal(jobIdOf(2, zeroAddress, zeroAddress, 0n));
  });
});

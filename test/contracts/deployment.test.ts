import { expect } from "chai";
import hre from "hardhat";
import HandOver from "../../ignition/modules/HandOver.ts";
import T4T from "../../ignition/modules/T4T.ts";
import T4TWithTestToken from "../../ignition/modules/T4TWithTestToken.ts";
import type { JobEscrow, ProviderRegistry, TestToken } from "../../types/index.ts";

const EIP170_LIMIT = 24_576;

async function connect() {
  // A chain of its own: Ignition keeps what it deployed in mind.
  const { ethers, ignition } = await hre.network.create();
  return { ethers, ignition, signers: await ethers.getSigners() };
}

describe("the Ignition modules", () => {
  it("deploy a market that takes jobs, owned by the first account", async () => {
    const { ignition, signers } = await connect();
    const deployed = await ignition.deploy(T4TWithTestToken);
    const registry = deployed.registry as unknown as ProviderRegistry;
    const escrow = deployed.escrow as unknown as JobEscrow;
    const token = deployed.token as unknown as TestToken;
    const [owner] = signers;
    expect(await registry.isMarket(escrow)).to.equal(true);
    expect(await escrow.registry()).to.equal(await registry.getAddress());
    expect(await registry.token()).to.equal(await token.getAddress());
    expect(await escrow.token()).to.equal(await token.getAddress());
    expect([await registry.owner(), await escrow.owner()]).to.deep.equal([owner?.address, owner?.address]);
    expect(await token.decimals()).to.equal(6);
    expect(await registry.collateralBps()).to.equal(10_000);
    expect(await escrow.ackWindow()).to.equal(30);
  });

  it("take every parameter, and an existing token", async () => {
    const { ethers, ignition } = await connect();
    const token = await ethers.deployContract("TestToken", [18]);
    const deployed = await ignition.deploy(T4T, {
      parameters: {
        T4T: {
          token: await token.getAddress(),
          minStake: 1n,
          timeToLive: 2n,
          unbondingPeriod: 100n,
          collateralBps: 3n,
          minPayment: 4n,
          minDuration: 5n,
          maxDuration: 60n,
          ackWindow: 7n,
          responseWindow: 8n,
        },
      },
    });
    const registry = deployed.registry as unknown as ProviderRegistry;
    const escrow = deployed.escrow as unknown as JobEscrow;
    expect([
      await registry.token(),
      await registry.minStake(),
      await registry.timeToLive(),
      await registry.unbondingPeriod(),
      await registry.collateralBps(),
      await escrow.minPayment(),
      await escrow.minDuration(),
      await escrow.maxDuration(),
      await escrow.ackWindow(),
      await escrow.responseWindow(),
    ]).to.deep.equal([await token.getAddress(), 1n, 2n, 100n, 3n, 4n, 5n, 60n, 7n, 8n]);
  });

  it("hand both contracts over to another owner, who must accept", async () => {
    const { ethers, ignition, signers } = await connect();
    const token = await ethers.deployContract("TestToken", [6]);
    const [, next] = signers;
    if (next === undefined) throw new Error("no second account");
    const deployed = await ignition.deploy(HandOver, {
      parameters: { T4T: { token: await token.getAddress() }, HandOver: { owner: next.address } },
    });
    const registry = deployed.registry as unknown as ProviderRegistry;
    const escrow = deployed.escrow as unknown as JobEscrow;
    for (const contract of [registry, escrow]) {
      expect(await contract.pendingOwner()).to.equal(next.address);
      await contract.connect(next).acceptOwnership();
      expect(await contract.owner()).to.equal(next.address);
    }
  });
});

describe("the code that is deployed", () => {
  it("is compiled with the settings that are tested, also by Ignition, which has a profile of its own", () => {
    const settings = Object.values(hre.config.solidity.profiles).map(({ compilers }) =>
      compilers.map((compiler) => {
        const { evmVersion, optimizer } = compiler.settings as Readonly<Record<string, unknown>>;
        return { version: compiler.version, evmVersion, optimizer };
      }),
    );
    expect(settings.length).to.be.greaterThan(1);
    for (const other of settings) expect(other).to.deep.equal(settings[0]);
  });

  for (const name of ["ProviderRegistry", "JobEscrow"] as const) {
    it(`of ${name} stays under the limit of a real chain with room to spare`, async () => {
      const { deployedBytecode } = await hre.artifacts.readArtifact(name);
      expect((deployedBytecode.length - 2) / 2).to.be.lessThan(EIP170_LIMIT * 0.9);
    });
  }
});

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import hardhatToolboxMochaEthers from "@nomicfoundation/hardhat-toolbox-mocha-ethers";
import { defineConfig } from "hardhat/config";
import { COMPILER_VERSION, EVM_VERSION, OPTIMIZER_RUNS } from "./scripts/solidity-settings.ts";

// Hardhat takes a file with the compiler in it; without one it downloads a compiler, which no test run should need.
const solc = createRequire(import.meta.url).resolve("solc/soljson.js");

const compiler = {
  version: COMPILER_VERSION,
  path: solc,
  settings: {
    evmVersion: EVM_VERSION,
    optimizer: { enabled: true, runs: OPTIMIZER_RUNS },
  },
};

export default defineConfig({
  plugins: [hardhatToolboxMochaEthers],
  // Ignition deploys with the profile of the second name: what is deployed must be what is tested.
  solidity: { profiles: { default: compiler, production: { ...compiler, isolated: false } } },
  paths: {
    tests: { mocha: "test/contracts" },
  },
  networks: {
    default: { type: "edr-simulated", chainId: 31337, hardfork: "cancun", mining: { auto: true } },
    // The network of this name configures `hardhat node`.
    // Blocks may share a second: else a burst of transactions carries chain time far ahead of the clock, and idle providers go stale.
    node: {
      type: "edr-simulated",
      chainId: 31337,
      hardfork: "cancun",
      allowBlocksWithSameTimestamp: true,
      mining: { auto: true },
    },
  },
  typechain: { outDir: "types", tsNocheck: true },
  test: {
    mocha: {
      timeout: 60_000,
      retries: 0,
      forbidOnly: true,
      forbidPending: true,
      reporter: fileURLToPath(new URL("scripts/testing/reporter.cjs", import.meta.url)),
    },
  },
});

import { expect } from "chai";
import { ethers } from "./chain.ts";
import { deployMarket, type Market, type MarketOptions } from "./market.ts";
import { weakenedMarket } from "./weakened.ts";
import type { Weakness } from "./weaknesses.ts";

/** Where an attack takes place: on the real contracts, or on contracts with a weakness. */
export interface Stage {
  readonly deploy: (options?: MarketOptions) => Promise<Market>;
  /** Whether the contracts of this stage have a weakness: some messages must then be signed otherwise. */
  readonly has: (weakness: Weakness) => boolean;
}

function stageWith(names: readonly Weakness[]): Stage {
  return {
    deploy: async (options) =>
      names.length === 0 ? await deployMarket(options) : await weakenedMarket(names, options),
    has: (weakness) => names.includes(weakness),
  };
}

/**
 * A test of an attack: it must fail on the real contracts, and succeed where they have all of the weaknesses, which shows that it is an
 * attack. Where there are several weaknesses each is a line of defence: the attack must fail as long as one of them holds.
 *
 * @param run Whether the attack won or broke something.
 */
export function attack(name: string, weaknesses: readonly Weakness[], run: (stage: Stage) => Promise<boolean>): void {
  it(`${name}: in vain, but not on a contract that ${weaknesses.join(" and ")}`, async function () {
    // Whichever is first compiles the weakened contracts, unless that is done.
    this.timeout(180_000);
    const succeedsOn = async (names: readonly Weakness[]): Promise<boolean> => {
      const snapshot: unknown = await ethers.provider.send("evm_snapshot", []);
      const succeeded = await run(stageWith(names));
      await ethers.provider.send("evm_revert", [snapshot]);
      return succeeded;
    };
    expect(await succeedsOn([]), "on the real contracts").to.equal(false);
    if (weaknesses.length > 1) {
      for (const weakness of weaknesses)
        expect(await succeedsOn([weakness]), `where it only ${weakness}`).to.equal(false);
    }
    expect(await succeedsOn(weaknesses), "on the weakened contracts").to.equal(true);
  });
}

/** A call that may be refused; whether it was not. What it did is looked at, not what it said. */
export async function attempt(call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch {
    return false;
  }
}

/** A market of one provider with one slot, and one client. */
export async function parties({ deploy }: Stage, options: MarketOptions = {}) {
  const market = await deploy(options);
  return { market, provider: await market.provider({ cap: 1n }), client: await market.client() };
}

// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ClientSteps} from "./ClientSteps.sol";
import {MarketStage} from "./MarketStage.sol";
import {ProviderSteps} from "./ProviderSteps.sol";
import {vm} from "./Vm.sol";
import {
    ACK_WINDOW,
    ACTORS,
    Broken,
    CANCEL_REQUESTED,
    CLIENTS,
    EXPIRED,
    Job,
    MODEL,
    OPEN,
    PROVIDERS,
    Provider,
    RESPONSE_WINDOW,
    SLASHED,
    STRANGER,
    SWEEP,
    TIME_TO_LIVE,
    UNBONDING,
    World
} from "./World.sol";

/// @dev Plays everybody in one market: clients, providers, strangers, the contracts' owner, time. Each step is one call of somebody; this
/// contract knows what it must do (whether it succeeds, and every balance, slot, stake and status after it) and reverts {Broken} when
/// it does not. After each step whatever the call had to do with is compared, every SWEEP steps and at the end everything. README.md
/// lists the rules.
///
/// Everything it knows is in memory, in one {World}: what is in storage costs the campaign most of its time.
abstract contract MarketHistory is ClientSteps, ProviderSteps {
    event Reached(uint256 status, uint256 count);

    constructor(uint256 feeBps, uint256 minStake, uint256 collateralBps) MarketStage(feeBps, minStake, collateralBps) {}

    /// @dev A history that both words choose.
    function testFuzz_history(bytes32 seed, bytes32 salt) external {
        _play(_seedOf(seed, salt), STEPS);
    }

    /// @dev The steps of a history that are listed, in order, each doing what it did there: to find the few that break a rule.
    function test_replay() external {
        uint256[] memory none;
        uint256[] memory steps = vm.envOr("T4T_FUZZ_REPLAY", ",", none);
        if (steps.length == 0) return;
        World memory w = _start(_seedOf(bytes32(steps[0]), bytes32(steps[1])));
        for (uint256 i = 2; i < steps.length; ++i) {
            _step(w, steps[i]);
            if (steps[i] % SWEEP == 0) _sweep(w);
        }
        _sweep(w);
        _everybodyLeaves(w);
    }

    /// @dev Another history in each market.
    function _seedOf(bytes32 seed, bytes32 salt) internal view returns (uint256) {
        return uint256(keccak256(abi.encode(seed, salt, FEE_BPS)));
    }

    /// @dev A campaign over histories that come to nothing would hold whatever the contracts did.
    function test_reach() external {
        World memory w = _play(1, 2_000);
        uint256[9] memory least = [uint256(0), 200, 20, 20, 60, 20, 5, 20, 5];
        for (uint256 status = OPEN; status <= SLASHED; ++status) {
            emit Reached(status, w.reached[status]);
            if (w.reached[status] < least[status]) revert Broken(w.step, "histories reach every status");
        }
    }

    function _play(uint256 seed, uint256 steps) internal returns (World memory w) {
        w = _start(seed);
        for (uint256 i = 1; i <= steps; ++i) {
            _step(w, i);
            if (i % SWEEP == 0) _sweep(w);
        }
        _everybodyLeaves(w);
    }

    /// @dev What a step does depends on the seed, its number and the world, and on nothing else.
    function _step(World memory w, uint256 number) internal {
        w.step = number;
        w.dice = uint256(keccak256(abi.encode(w.seed, number)));
        _pass(w);

        uint256 what = _roll(w, 128);
        if (what < 20) _post(w);
        else if (what < 30) _postAny(w);
        else if (what < 39) _acknowledge(w);
        else if (what < 55) _complete(w);
        else if (what < 61) _completeBatch(w);
        else if (what < 65) _decline(w);
        else if (what < 73) _requestCancel(w);
        else if (what < 78) _finalizeCancel(w);
        else if (what < 82) _expire(w);
        else if (what < 89) _slash(w);
        else if (what < 94) _deposit(w);
        else if (what < 98) _withdraw(w);
        else if (what < 101) _earn(w);
        else if (what < 107) _beat(w);
        else if (what < 109) _setCap(w);
        else if (what < 112) _reprice(w);
        else if (what < 114) _rotate(w);
        else if (what < 117) _comeAndGo(w);
        else if (what < 120) _addStake(w);
        else if (what < 122) _unbond(w);
        else if (what < 124) _withdrawStake(w);
        else if (what < 125) _sweepBurntStake(w);
        else _administer(w);
    }

    /// @dev No time, a little, much, or until a limit, at it and just before it.
    function _pass(World memory w) internal {
        uint256 what = _roll(w, 256);
        uint256 time = w.time;
        if (what < 80) time += 1 + what / 3;
        else if (what < 84) time += 150 * (what - 79);
        else if (what == 84) time += _roll(w, 4) == 0 ? UNBONDING + 100 : 0;
        else if (what < 100) time = _limit(w) - _roll(w, 2);
        if (time > w.time) vm.warp(w.time = time);
    }

    /// @dev A time from which something is allowed, or no longer is.
    function _limit(World memory w) internal pure returns (uint256) {
        uint256 kind = _roll(w, 8);
        if (kind == 0 || w.liveCount == 0) return w.providers[_roll(w, PROVIDERS)].lastSeen + TIME_TO_LIVE + 1;
        Job memory job = w.live[_roll(w, w.liveCount)];
        if (kind == 1) return job.postedAt + ACK_WINDOW;
        return job.status == CANCEL_REQUESTED ? job.since + RESPONSE_WINDOW : job.deadline;
    }

    function _start(uint256 seed) internal returns (World memory w) {
        w.seed = seed;
        w.time = 1_800_000_000;
        vm.warp(w.time);
        for (uint256 i = 0; i < ACTORS; ++i) {
            w.who[i] = vm.addr(_key(i));
        }
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            Provider memory p = w.providers[i];
            address owner = w.who[_owner(i)];
            p.slot = keccak256(abi.encode(owner, uint256(2)));
            uint256 stake = 20_000 + 40_000 * i;
            _do(
                w,
                _owner(i),
                address(_registry),
                abi.encodeCall(_registry.register, (w.who[_operator(i)], owner, "endpoint", stake))
            );
            (p.stake, p.lastSeen, p.active) = (_arrives(stake), w.time, true);
            (p.inputPrice, p.outputPrice, p.offers) = (1e6, 2e6, true);
            _do(w, _operator(i), address(_registry), abi.encodeCall(_registry.setOffering, (MODEL, 1e6, 2e6, 1)));
        }
        for (uint256 i = 0; i < CLIENTS + 1; ++i) {
            _do(w, i, address(_escrow), abi.encodeCall(_escrow.deposit, (1e5)));
            w.free[i] = _arrives(1e5);
        }
    }

    // ------------------------------------------------------------------------------------------- what the owner does

    function _administer(World memory w) internal {
        if (w.forbidden) {
            _registry.setMarket(address(_escrow), true);
            w.forbidden = false;
            return;
        }
        if (w.paused) {
            _escrow.unpause();
            w.paused = false;
            return;
        }
        uint256 what = _roll(w, 24);
        if (what > 1) {
            bytes memory call = abi.encodeCall(_registry.setMarket, (address(_escrow), false));
            if (_send(w, STRANGER, address(_registry), call)) revert Broken(w.step, "the owner decides on markets");
            if (_send(w, STRANGER, address(_escrow), abi.encodeCall(_escrow.pause, ()))) {
                revert Broken(w.step, "the owner pauses");
            }
        } else if (what == 0) {
            _escrow.pause();
            w.paused = true;
        } else {
            _registry.setMarket(address(_escrow), false);
            w.forbidden = true;
        }
    }

    /// @dev Every job has an exit that needs neither party, and every unit of money and stake can leave.
    function _everybodyLeaves(World memory w) internal {
        if (!w.paused) _escrow.pause();
        w.paused = true;
        for (uint256 i = 0; i < w.liveCount; ++i) {
            if (w.live[i].deadline > w.time) w.time = w.live[i].deadline;
        }
        vm.warp(w.time);
        bytes32[] memory ids = new bytes32[](w.liveCount);
        for (uint256 i = 0; i < ids.length; ++i) {
            ids[i] = w.live[i].id;
        }
        _do(w, STRANGER, address(_escrow), abi.encodeCall(_escrow.expireJobs, (ids)));
        while (w.liveCount != 0) {
            _ended(w, w.live[w.liveCount - 1], EXPIRED, 0);
        }
        _sweep(w);

        for (uint256 i = 0; i < ACTORS; ++i) {
            if (w.locked[i] != 0) revert Broken(w.step, "nothing stays locked");
            if (w.free[i] != 0) {
                _do(w, i, address(_escrow), abi.encodeCall(_escrow.withdraw, (w.free[i], w.who[i])));
            }
            w.free[i] = 0;
        }
        if (_token.balanceOf(address(_escrow)) != 0) revert Broken(w.step, "all money can leave");

        for (uint256 i = 0; i < PROVIDERS; ++i) {
            Provider memory p = w.providers[i];
            if (p.active) _do(w, _owner(i), address(_registry), abi.encodeCall(_registry.deactivate, ()));
            p.active = false;
            if (p.exposure != 0 || p.open != 0) revert Broken(w.step, "nothing stays held");
            if (p.unbonding != 0) {
                if (w.time < p.unbondingAt) vm.warp(w.time = p.unbondingAt);
                _withdrawStakeOf(w, i);
            }
            if (p.stake == 0) continue;
            _do(w, _owner(i), address(_registry), abi.encodeCall(_registry.startUnbonding, (p.stake)));
            (p.unbonding, p.unbondingAt, p.stake) = (p.stake, w.time + UNBONDING, 0);
            vm.warp(w.time = p.unbondingAt);
            _withdrawStakeOf(w, i);
        }
        if (_token.balanceOf(address(_registry)) != w.burnt) revert Broken(w.step, "all stake can leave");
    }
}

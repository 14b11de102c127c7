// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IJobEscrow} from "../../../contracts/interfaces/IJobEscrow.sol";
import {MarketRules} from "./MarketRules.sol";
import {vm} from "./Vm.sol";
import {
    ACKNOWLEDGED,
    ACTORS,
    Broken,
    CANCEL_REQUESTED,
    COMPLETED,
    DECLINED,
    HASH,
    Job,
    MODEL,
    OPEN,
    PROVIDERS,
    Provider,
    UNBONDING,
    World
} from "./World.sol";

/// @dev Calls of providers, in the market and in the registry.
abstract contract ProviderSteps is MarketRules {
    function _acknowledge(World memory w) internal {
        Job memory job = _pick(w);
        uint256 actor = _anyOf(w, job.provider);
        // It signs first; not every acknowledgement is brought to the chain.
        if (actor == _owner(job.provider)) job.consentOfOwner = true;
        if (actor == _operator(job.provider)) job.consentOfOperator = true;
        if (_roll(w, 2) == 0) return _beatBy(w, actor, job.provider);
        bool due = _acts(w, actor, job.provider) && (job.status == OPEN || job.status == CANCEL_REQUESTED);
        bool ok = _send(w, actor, address(_escrow), abi.encodeCall(_escrow.ackJob, (job.id)));
        if (ok != due) revert Broken(w.step, "a provider, and nobody else, can acknowledge until then");
        if (ok) {
            (job.status, job.since) = (ACKNOWLEDGED, w.time);
            w.reached[ACKNOWLEDGED]++;
            _seen(w, job.provider);
        }
        _checkJob(w, job);
        _checkProvider(w, job.provider);
    }

    function _complete(World memory w) internal {
        Job memory job = _pick(w);
        uint256 actor = _anyOf(w, job.provider);
        IJobEscrow.Usage memory usage = IJobEscrow.Usage(uint64(_roll(w, 6_000)), uint64(_roll(w, 6_000)));
        (bytes memory signature, uint256 limit) = _claim(w, job, usage);
        bool due = _isLive(job) && _acts(w, actor, job.provider) && limit != type(uint256).max;
        bytes memory call = abi.encodeCall(_escrow.completeJob, (job.id, usage, HASH, signature));
        bool ok = _send(w, actor, address(_escrow), call);
        if (ok != due) revert Broken(w.step, "the provider, with a good claim, completes, and nobody else");
        if (ok) {
            _ended(w, job, COMPLETED, _payment(job, usage, limit));
            _seen(w, job.provider);
        }
        _checkEnd(w, job, actor);
    }

    function _completeBatch(World memory w) internal {
        uint256 count = 1 + _roll(w, 4);
        Job[] memory jobs = new Job[](count);
        IJobEscrow.Completion[] memory items = new IJobEscrow.Completion[](count);
        uint256[] memory limits = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            jobs[i] = _pick(w);
            items[i].jobId = jobs[i].id;
            items[i].usage = IJobEscrow.Usage(uint64(_roll(w, 6_000)), uint64(_roll(w, 6_000)));
            items[i].responseHash = HASH;
            (items[i].clientSignature, limits[i]) = _claim(w, jobs[i], items[i].usage);
        }
        uint256 actor = _anyOf(w, jobs[0].provider);
        if (!_send(w, actor, address(_escrow), abi.encodeCall(_escrow.completeJobs, (items)))) {
            revert Broken(w.step, "a batch does not revert");
        }
        for (uint256 i = 0; i < count; ++i) {
            Job memory job = jobs[i];
            if (!_isLive(job) || !_acts(w, actor, job.provider) || limits[i] == type(uint256).max) continue;
            _ended(w, job, COMPLETED, _payment(job, items[i].usage, limits[i]));
            _seen(w, job.provider);
        }
        for (uint256 i = 0; i < count; ++i) {
            _checkEnd(w, jobs[i], actor);
        }
    }

    function _decline(World memory w) internal {
        Job memory job = _pick(w);
        uint256 actor = _anyOf(w, job.provider);
        bool due = _isLive(job) && _acts(w, actor, job.provider);
        bool ok = _send(w, actor, address(_escrow), abi.encodeCall(_escrow.declineJob, (job.id)));
        if (ok != due) revert Broken(w.step, "a provider can decline, and nobody else");
        if (ok) {
            _ended(w, job, DECLINED, 0);
            _seen(w, job.provider);
        }
        _checkEnd(w, job, actor);
    }

    function _beat(World memory w) internal {
        uint256 p = _roll(w, PROVIDERS);
        _beatBy(w, _anyOf(w, p), p);
    }

    function _beatBy(World memory w, uint256 actor, uint256 p) internal {
        // Who acts for nobody or for another shows that one's life.
        if (!_acts(w, actor, p)) actor = _owner(p);
        bool ok = _send(w, actor, address(_registry), abi.encodeCall(_registry.heartbeat, ()));
        if (ok != w.providers[p].active) revert Broken(w.step, "an active provider shows that it lives");
        if (ok) w.providers[p].lastSeen = w.time;
        _checkProvider(w, p);
    }

    function _setCap(World memory w) internal {
        uint256 p = _roll(w, PROVIDERS);
        uint256 cap = _roll(w, 9);
        _do(w, _actingFor(w, p), address(_registry), abi.encodeCall(_registry.setMaxConcurrentJobs, (uint32(cap))));
        w.providers[p].cap = cap;
        _acted(w, p);
        _checkProvider(w, p);
    }

    function _reprice(World memory w) internal {
        uint256 number = _roll(w, PROVIDERS);
        Provider memory p = w.providers[number];
        uint256 actor = _actingFor(w, number);
        if (p.offers && _roll(w, 12) == 0) {
            _do(w, actor, address(_registry), abi.encodeCall(_registry.removeOffering, (MODEL)));
            p.offers = false;
        } else {
            // Prices with which most payments have a fraction to round.
            (p.inputPrice, p.outputPrice, p.offers) = (_roll(w, 3e6), 1 + _roll(w, 3e6), true);
            bytes memory call =
                abi.encodeCall(_registry.setOffering, (MODEL, uint96(p.inputPrice), uint96(p.outputPrice), 1));
            _do(w, actor, address(_registry), call);
        }
        _acted(w, number);
        _checkProvider(w, number);
    }

    function _rotate(World memory w) internal {
        uint256 number = _roll(w, PROVIDERS);
        Provider memory p = w.providers[number];
        bool toOwner = _roll(w, 2) == 0;
        if (_roll(w, 4) == 0) {
            bool ok = _send(w, _operator(number), address(_registry), abi.encodeCall(_registry.resignOperator, ()));
            if (ok == p.ownOperator) revert Broken(w.step, "an operator, and nobody else, can resign");
            toOwner = true;
        } else {
            address next = w.who[toOwner ? _owner(number) : _operator(number)];
            _do(w, _owner(number), address(_registry), abi.encodeCall(_registry.setOperator, (next)));
            _acted(w, number);
        }
        if (toOwner && !p.ownOperator) {
            p.operatorLeftAt = w.time;
            _acted(w, number);
        }
        p.ownOperator = toOwner;
        _checkProvider(w, number);
    }

    function _comeAndGo(World memory w) internal {
        uint256 number = _roll(w, PROVIDERS);
        bool leave = _roll(w, 6) == 0;
        for (uint256 i = 0; i < PROVIDERS && !leave; ++i) {
            if (!w.providers[i].active) number = i;
        }
        Provider memory p = w.providers[number];
        bytes memory call = leave ? abi.encodeCall(_registry.deactivate, ()) : abi.encodeCall(_registry.reactivate, ());
        bool due = leave ? p.active : !p.active && p.stake >= MIN_STAKE;
        if (_send(w, _owner(number), address(_registry), call) != due) {
            revert Broken(w.step, "a provider goes when it likes and comes back with the least stake");
        }
        if (due) p.active = !p.active;
        if (due && p.active) p.lastSeen = w.time;
        _checkProvider(w, number);
    }

    function _addStake(World memory w) internal {
        uint256 number = _roll(w, PROVIDERS);
        uint256 amount = _roll(w, 20_000);
        // Who fell below the least gets enough to come back.
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            if (w.providers[i].stake < MIN_STAKE) (number, amount) = (i, amount + MIN_STAKE);
        }
        bool ok = _send(w, _owner(number), address(_registry), abi.encodeCall(_registry.addStake, (amount)));
        if (ok != (_arrives(amount) != 0)) revert Broken(w.step, "stake is what arrives");
        if (ok) {
            w.providers[number].stake += _arrives(amount);
            _acted(w, number);
        }
        _checkProvider(w, number);
        _checkStakes(w);
    }

    function _unbond(World memory w) internal {
        uint256 number = _roll(w, PROVIDERS);
        bool flees = _roll(w, 2) == 0;
        for (uint256 i = 0; i < PROVIDERS && flees; ++i) {
            if (w.providers[i].open > w.providers[number].open) number = i;
        }
        Provider memory p = w.providers[number];
        uint256 kept = p.active ? MIN_STAKE : 0;
        uint256 amount = _roll(w, p.stake / 4 + 2);
        // All that can leave while jobs are open, or a little more.
        if (flees && p.stake > kept) amount = p.stake - kept + (_roll(w, 4) == 0 ? 1 : 0);
        bool due = p.unbonding == 0 && amount != 0 && amount + kept <= p.stake;
        bool ok = _send(w, _owner(number), address(_registry), abi.encodeCall(_registry.startUnbonding, (amount)));
        if (ok != due) revert Broken(w.step, "stake above the least can be unbonded, whatever any client does");
        if (ok) {
            p.stake -= amount;
            (p.unbonding, p.unbondingAt) = (amount, w.time + UNBONDING);
            _acted(w, number);
        }
        _checkProvider(w, number);
    }

    function _withdrawStake(World memory w) internal {
        uint256 number = _roll(w, PROVIDERS);
        // Half of the time when it is due.
        uint256 at = w.providers[number].unbondingAt;
        if (at > w.time && _roll(w, 2) == 0) vm.warp(w.time = at);
        _withdrawStakeOf(w, number);
    }

    function _withdrawStakeOf(World memory w, uint256 number) internal {
        Provider memory p = w.providers[number];
        address owner = w.who[_owner(number)];
        uint256 held = _token.balanceOf(owner);
        bool ok = _send(w, _owner(number), address(_registry), abi.encodeCall(_registry.withdrawStake, ()));
        if (ok != (p.unbonding != 0 && w.time >= p.unbondingAt)) {
            revert Broken(w.step, "unbonded stake can be withdrawn, whatever any client does");
        }
        if (ok) {
            if (_token.balanceOf(owner) != held + _arrives(p.unbonding)) {
                revert Broken(w.step, "stake goes to the payout");
            }
            (p.unbonding, p.unbondingAt) = (0, 0);
            _acted(w, number);
        }
        _checkProvider(w, number);
        _checkStakes(w);
    }

    function _sweepBurntStake(World memory w) internal {
        uint256 who = _roll(w, ACTORS);
        bool ok = _send(w, who, address(_registry), abi.encodeCall(_registry.sweepBurntStake, ()));
        if (ok != (w.burnt != 0)) revert Broken(w.step, "burnt stake can be swept by anyone");
        w.burnt = 0;
        _checkStakes(w);
    }
}

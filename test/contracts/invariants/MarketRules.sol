// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IJobEscrow} from "../../../contracts/interfaces/IJobEscrow.sol";
import {IProviderRegistry} from "../../../contracts/interfaces/IProviderRegistry.sol";
import {MarketStage} from "./MarketStage.sol";
import {vm} from "./Vm.sol";
import {
    ACTORS,
    Broken,
    CANCEL_REQUESTED,
    COMPLETED,
    HASH,
    Job,
    MAX_DURATION,
    MAX_LIVE,
    MIN_DURATION,
    MIN_PAYMENT,
    MODEL_KEY,
    OPEN,
    PROVIDERS,
    Provider,
    RECEIPT,
    REMEMBERED,
    STRANGER,
    TIME_TO_LIVE,
    World
} from "./World.sol";

/// @dev What must hold, what a call is expected to do, and what the world is after it.
abstract contract MarketRules is MarketStage {
    // ------------------------------------------------------------------------------------------------- what must hold

    /// @dev Everything, as the views tell it.
    function _sweep(World memory w) internal view {
        for (uint256 i = 0; i < ACTORS; ++i) {
            _checkAccount(w, i);
        }
        _checkMoney(w);
        _checkStakes(w);
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            _checkProvider(w, i);
            _checkProviderView(w, i);
        }
        for (uint256 i = 0; i < w.liveCount; ++i) {
            _checkJobView(w, w.live[i]);
        }
        uint256 remembered = w.endings < REMEMBERED ? w.endings : REMEMBERED;
        for (uint256 i = 0; i < remembered; ++i) {
            _checkJobView(w, w.ended[i]);
        }
        if (_escrow.paused() != w.paused) revert Broken(w.step, "it is paused when it was paused");
    }

    function _checkMoney(World memory w) internal view {
        uint256 owed;
        for (uint256 i = 0; i < ACTORS; ++i) {
            owed += w.free[i] + w.locked[i];
        }
        if (_token.balanceOf(address(_escrow)) != owed) revert Broken(w.step, "the escrow holds what it owes");
    }

    function _checkStakes(World memory w) internal view {
        uint256 staked = w.burnt;
        for (uint256 i = 0; i < PROVIDERS; ++i) {
            staked += w.providers[i].stake + w.providers[i].unbonding;
        }
        if (_token.balanceOf(address(_registry)) != staked) {
            revert Broken(w.step, "the registry holds stake, unbonding and burnt");
        }
        if (_registry.burntStake() != w.burnt) revert Broken(w.step, "burnt is what slashes took");
    }

    function _checkAccount(World memory w, uint256 actor) internal view {
        IJobEscrow.AccountView memory account = _escrow.accountOf(w.who[actor]);
        if (account.free != w.free[actor]) revert Broken(w.step, "free money is what calls left of it, to the unit");
        if (account.locked != w.locked[actor]) revert Broken(w.step, "locked is what open jobs hold");
    }

    /// @dev The two words that jobs and stakes change, as docs/contracts.md lays them out: a view costs ten times as much.
    function _checkProvider(World memory w, uint256 number) internal view {
        Provider memory p = w.providers[number];
        uint256 word = uint256(vm.load(address(_registry), p.slot));
        if (uint32(word) != p.open) revert Broken(w.step, "openJobs counts the jobs that have not ended");
        if (uint32(word >> 32) != p.cap) revert Broken(w.step, "the cap is what the provider published");
        if (uint40(word >> 64) != p.lastSeen) revert Broken(w.step, "lastSeen is the provider's last act");
        if (((word >> 104) & 1 != 0) != p.active) {
            revert Broken(w.step, "active is what the provider or a slash made it");
        }
        if (int256(word) >> 128 != int256(p.stake) - int256(p.exposure)) {
            revert Broken(w.step, "exposure is the collateral of open jobs");
        }
        word = uint256(vm.load(address(_registry), bytes32(uint256(p.slot) + 3)));
        if (uint128(word) != p.stake) revert Broken(w.step, "only the owner and slashes change the stake");
        if (word >> 128 != p.unbonding) revert Broken(w.step, "only the owner and slashes change what is unbonding");
    }

    function _checkProviderView(World memory w, uint256 number) internal view {
        Provider memory p = w.providers[number];
        IProviderRegistry.ProviderView memory row = _registry.providerOf(w.who[_owner(number)]);
        bool same = row.openJobs == p.open && row.maxConcurrentJobs == p.cap && row.lastSeen == p.lastSeen
            && row.active == p.active && row.exposure == p.exposure && row.stake == p.stake;
        same = same && row.unbonding == p.unbonding && row.unbondingAt == p.unbondingAt
            && row.offeringCount == (p.offers ? 1 : 0)
            && row.operator == w.who[p.ownOperator ? _owner(number) : _operator(number)];
        if (!same) revert Broken(w.step, "a provider's view tells what it is");
    }

    /// @dev The status as it lies in storage, where a completed job has none.
    function _checkJob(World memory w, Job memory job) internal view {
        uint256 status = uint256(vm.load(address(_escrow), keccak256(abi.encode(job.id, uint256(5))))) >> 252;
        if (status != (job.status == COMPLETED ? 0 : job.status)) {
            revert Broken(w.step, "a job changes by the calls of its table only, and an end is never left");
        }
    }

    function _checkJobView(World memory w, Job memory job) internal view {
        IJobEscrow.JobView memory row = _escrow.jobOf(job.id);
        bool same = uint256(row.status) == job.status && row.client == w.who[job.client]
            && row.unsignedLimit == job.unsignedLimit;
        if (job.status != COMPLETED) {
            same = same && row.provider == w.who[_owner(job.provider)] && row.maxPayment == job.maxPayment
                && row.inputPrice == job.inputPrice && row.outputPrice == job.outputPrice;
            same = same && row.since == job.since && row.deadline == job.deadline && row.modelKey == MODEL_KEY;
        }
        if (!same) revert Broken(w.step, "an open job keeps its price and terms, an ended one its end");
    }

    /// @dev All that the end of a job changes, and that whoever brought it about has gained nothing by it.
    function _checkEnd(World memory w, Job memory job, uint256 actor) internal view {
        _checkJob(w, job);
        _checkProvider(w, job.provider);
        _checkAccount(w, job.client);
        _checkAccount(w, _owner(job.provider));
        _checkAccount(w, actor);
    }

    // --------------------------------------------------------------------------------------------------- what is expected

    function _takes(World memory w, uint256 number, IJobEscrow.JobTerms memory terms) internal view returns (bool) {
        Provider memory p = w.providers[number];
        if (w.paused || w.forbidden || !p.active || w.time - p.lastSeen > TIME_TO_LIVE || !p.offers) return false;
        if (p.inputPrice > terms.maxInputPrice || p.outputPrice > terms.maxOutputPrice) return false;
        if (p.cap != 0 && p.open >= p.cap) return false;
        return p.stake >= p.exposure + _collateral(terms.maxPayment);
    }

    /// @dev Terms, most of them good; whether they are, and are covered by the client's money.
    function _terms(World memory w, uint256 client)
        internal
        view
        returns (IJobEscrow.JobTerms memory terms, bool good)
    {
        uint256 payment = MIN_PAYMENT + _roll(w, 10_000);
        uint256 duration = MIN_DURATION + _roll(w, 600);
        uint256 limit = _roll(w, payment + 1);
        uint256 flaw = _roll(w, 64);
        if (flaw == 0) payment = MIN_PAYMENT - 1;
        if (flaw == 1) limit = payment + 1;
        if (flaw == 2) duration = MIN_DURATION - 1;
        if (flaw == 3) duration = MAX_DURATION + 1;
        if (flaw == 4) payment = w.free[client] + 1;
        if (w.liveCount == MAX_LIVE) payment = w.free[client] + 1_000;
        if (limit > payment && flaw != 1) limit = payment;
        terms = IJobEscrow.JobTerms({
            nonce: ++w.nonce,
            modelKey: MODEL_KEY,
            maxPayment: uint96(payment),
            unsignedLimit: uint96(limit),
            maxInputPrice: uint96(flaw == 5 ? 1e6 : 3e6),
            maxOutputPrice: uint96(flaw == 6 ? 1e6 : 3e6),
            deadline: uint40(w.time + duration)
        });
        good = payment >= MIN_PAYMENT && limit <= payment && duration >= MIN_DURATION && duration <= MAX_DURATION
            && payment <= w.free[client];
        if (flaw >= 7 && flaw < 10 && w.endings != 0) {
            Job memory earlier = w.ended[_roll(w, w.endings < REMEMBERED ? w.endings : REMEMBERED)];
            terms.nonce = earlier.nonce;
            good = good && earlier.client != client && !_used(w, client, earlier.nonce);
        }
    }

    /// @dev Whether a client has used a nonce that may be remembered.
    function _used(World memory w, uint256 client, uint256 nonce) internal view returns (bool) {
        return _escrow.jobOf(_escrow.jobIdOf(w.who[client], nonce)).client != address(0);
    }

    /// @dev A claim and its limit; the largest number for one that is good for nothing.
    function _claim(
        World memory w,
        Job memory job,
        IJobEscrow.Usage memory usage
    )
        internal
        view
        returns (bytes memory signature, uint256 limit)
    {
        uint256 kind = _roll(w, 8);
        if (kind < 3) return ("", job.unsignedLimit);
        limit = job.maxPayment;
        uint256 signer = job.client;
        bytes32 id = job.id;
        uint256 input = usage.inputTokens;
        // By somebody else, for another job, over another usage.
        if (kind == 3) signer = STRANGER;
        if (kind == 4) id = HASH;
        if (kind == 5) input += 1;
        if (kind < 6) limit = type(uint256).max;
        address provider = w.who[_owner(job.provider)];
        signature = _sign(signer, keccak256(abi.encode(RECEIPT, id, provider, input, usage.outputTokens, HASH)));
    }

    function _payment(Job memory job, IJobEscrow.Usage memory usage, uint256 limit) internal pure returns (uint256) {
        uint256 price = (usage.inputTokens * job.inputPrice + usage.outputTokens * job.outputPrice) / 1e6;
        return price < limit ? price : limit;
    }

    function _collateral(uint256 payment) internal view returns (uint256) {
        return (payment * COLLATERAL_BPS) / 10_000;
    }

    /// @dev What a transfer of `amount` brings.
    function _arrives(uint256 amount) internal view returns (uint256) {
        return amount - (amount * FEE_BPS) / 10_000;
    }

    function _isLive(Job memory job) internal pure returns (bool) {
        return job.status != 0 && job.status <= CANCEL_REQUESTED;
    }

    function _acts(World memory w, uint256 actor, uint256 number) internal pure returns (bool) {
        return actor == _owner(number) || (actor == _operator(number) && !w.providers[number].ownOperator);
    }

    // ------------------------------------------------------------------------------------------------ what calls change

    function _posted(World memory w, uint256 client, uint256 number, IJobEscrow.JobTerms memory terms) internal view {
        Provider memory p = w.providers[number];
        w.live[w.liveCount++] = Job({
            id: keccak256(abi.encode(block.chainid, address(_escrow), w.who[client], terms.nonce)),
            nonce: terms.nonce,
            client: client,
            provider: number,
            maxPayment: terms.maxPayment,
            unsignedLimit: terms.unsignedLimit,
            inputPrice: p.inputPrice,
            outputPrice: p.outputPrice,
            postedAt: w.time,
            since: w.time,
            deadline: terms.deadline,
            status: OPEN,
            consentOfOwner: false,
            consentOfOperator: false
        });
        w.reached[OPEN]++;
        w.free[client] -= terms.maxPayment;
        w.locked[client] += terms.maxPayment;
        p.open += 1;
        p.exposure += _collateral(terms.maxPayment);
    }

    function _ended(World memory w, Job memory job, uint256 status, uint256 payment) internal view {
        job.status = status;
        w.reached[status]++;
        w.locked[job.client] -= job.maxPayment;
        w.free[job.client] += job.maxPayment - payment;
        w.free[_owner(job.provider)] += payment;
        Provider memory p = w.providers[job.provider];
        p.open -= 1;
        p.exposure -= _collateral(job.maxPayment);
        uint256 last = --w.liveCount;
        for (uint256 i = 0; i < last; ++i) {
            if (w.live[i].id == job.id) w.live[i] = w.live[last];
        }
        w.ended[w.endings++ % REMEMBERED] = job;
    }

    /// @dev The provider acted in the registry.
    function _acted(World memory w, uint256 number) internal pure {
        if (w.providers[number].active) w.providers[number].lastSeen = w.time;
    }

    /// @dev The provider acted in the market, which tells the registry only now and then.
    function _seen(World memory w, uint256 number) internal pure {
        if (w.time - w.providers[number].lastSeen >= TIME_TO_LIVE / 8) _acted(w, number);
    }
}

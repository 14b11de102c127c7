// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {JobEscrow} from "../../../contracts/JobEscrow.sol";
import {ProviderRegistry} from "../../../contracts/ProviderRegistry.sol";
import {FeeToken} from "../../../contracts/mocks/FeeToken.sol";
import {TestToken} from "../../../contracts/mocks/TestToken.sol";
import {vm} from "./Vm.sol";
import {
    ACK_WINDOW,
    ACTORS,
    Broken,
    CLIENTS,
    Job,
    MAX_DURATION,
    MIN_DURATION,
    MIN_PAYMENT,
    PROVIDERS,
    REMEMBERED,
    RESPONSE_WINDOW,
    TIME_TO_LIVE,
    UNBONDING,
    World
} from "./World.sol";

/// @dev One market, the people in it, the dice that choose for them, and their calls.
abstract contract MarketStage {
    uint256 internal immutable FEE_BPS;
    uint256 internal immutable MIN_STAKE;
    uint256 internal immutable COLLATERAL_BPS;
    uint256 internal immutable STEPS;

    ProviderRegistry internal _registry;
    JobEscrow internal _escrow;
    TestToken internal _token;
    bytes32 internal _domain;

    constructor(uint256 feeBps, uint256 minStake, uint256 collateralBps) {
        (FEE_BPS, MIN_STAKE, COLLATERAL_BPS) = (feeBps, minStake, collateralBps);
        STEPS = vm.envOr("T4T_FUZZ_STEPS", uint256(500));
    }

    function setUp() external {
        _token = FEE_BPS == 0 ? new TestToken(6) : TestToken(address(new FeeToken(FEE_BPS)));
        _registry = new ProviderRegistry(
            address(_token),
            address(this),
            ProviderRegistry.Parameters(MIN_STAKE, TIME_TO_LIVE, UNBONDING, COLLATERAL_BPS)
        );
        _escrow = new JobEscrow(
            address(_registry),
            address(this),
            JobEscrow.Parameters(
                uint96(MIN_PAYMENT),
                uint40(MIN_DURATION),
                uint40(MAX_DURATION),
                uint40(ACK_WINDOW),
                uint40(RESPONSE_WINDOW)
            )
        );
        _registry.setMarket(address(_escrow), true);
        _domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("T4T JobEscrow"),
                keccak256("1"),
                block.chainid,
                address(_escrow)
            )
        );
        for (uint256 i = 0; i < ACTORS; ++i) {
            address actor = vm.addr(_key(i));
            _token.mint(actor, 1e9);
            vm.prank(actor);
            _token.approve(address(_registry), type(uint256).max);
            vm.prank(actor);
            _token.approve(address(_escrow), type(uint256).max);
        }
    }

    // --------------------------------------------------------------------------------------------------------- choices

    function _roll(World memory w, uint256 sides) internal pure returns (uint256 rolled) {
        uint256 dice = w.dice;
        assembly ("memory-safe") {
            mstore(0x00, dice)
            dice := keccak256(0x00, 0x20)
            rolled := mod(dice, sides)
        }
        w.dice = dice;
    }

    /// @dev A live job mostly, one that ended sometimes or when none lives; one that never was when there is none at all.
    function _pick(World memory w) internal pure returns (Job memory job) {
        if (w.liveCount != 0 && _roll(w, 12) != 0) return w.live[_roll(w, w.liveCount)];
        if (w.endings == 0) return job;
        return w.ended[_roll(w, w.endings < REMEMBERED ? w.endings : REMEMBERED)];
    }

    /// @dev Mostly one of the provider's keys.
    function _anyOf(World memory w, uint256 number) internal pure returns (uint256) {
        uint256 kind = _roll(w, 8);
        if (kind == 0) return _roll(w, ACTORS);
        return kind < 5 && !w.providers[number].ownOperator ? _operator(number) : _owner(number);
    }

    /// @dev One of the provider's keys.
    function _actingFor(World memory w, uint256 number) internal pure returns (uint256) {
        return _roll(w, 2) == 0 || w.providers[number].ownOperator ? _owner(number) : _operator(number);
    }

    function _owner(uint256 number) internal pure returns (uint256) {
        return CLIENTS + number;
    }

    function _operator(uint256 number) internal pure returns (uint256) {
        return CLIENTS + PROVIDERS + number;
    }

    // ----------------------------------------------------------------------------------------------------------- calls

    function _send(World memory w, uint256 actor, address target, bytes memory data) internal returns (bool ok) {
        vm.prank(w.who[actor]);
        assembly ("memory-safe") {
            ok := call(gas(), target, 0, add(data, 0x20), mload(data), 0, 0)
        }
    }

    /// @dev A call that nothing can refuse.
    function _do(World memory w, uint256 actor, address target, bytes memory data) internal {
        if (!_send(w, actor, target, data)) revert Broken(w.step, "what nobody can refuse succeeds");
    }

    function _sign(uint256 actor, bytes32 structHash) internal view returns (bytes memory) {
        bytes32 digest = keccak256(abi.encodePacked("\x19\x01", _domain, structHash));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(_key(actor), digest);
        return abi.encodePacked(r, s, v);
    }

    function _key(uint256 actor) internal pure returns (uint256) {
        return 0xa11ce + actor;
    }
}

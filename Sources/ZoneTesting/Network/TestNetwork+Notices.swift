import Synchronization
import ZoneKit

/// How the network carries one frame of a notice socket.
struct FramePlan {
    /// The delay of each copy that arrives.
    var delays: [Duration]
    var isInOrder = true
}

extension TestNetwork {
    /// Returns the delay of a frame.
    func frameDelay() -> Duration {
        state.withLock { $0.latency + ($0.weather?.delay(&world.random.generator) ?? .zero) }
    }

    /// Plans the delivery of an event from the relay on a socket.
    func plan(for event: SocketEvent, of socket: TestSocket) -> FramePlan {
        guard case .text(let text) = event else { return FramePlan(delays: [frameDelay()]) }
        state.withLock { $0.frames.append(String(decoding: text, as: UTF8.self)) }
        world.witness?.noticed(text, device: device, socket: ObjectIdentifier(socket))
        let delay = frameDelay()
        // Only notices may be lost: without the relay's hello nothing would follow.
        guard text.starts(with: Self.noticeMark) else { return FramePlan(delays: [delay]) }
        let handling = state.withLock { state in
            state.weather?.notices(&world.random.generator) ?? state.notices
        }
        switch handling {
        case .delivered: return FramePlan(delays: [delay])
        case .dropped: return FramePlan(delays: [])
        case .doubled: return FramePlan(delays: [delay, delay])
        case .reordered:
            let more = Duration.milliseconds(Int64.random(in: 0...1000, using: &world.random.generator))
            return FramePlan(delays: [delay + more], isInOrder: false)
        }
    }

    private static let noticeMark = Array(#"{"notice""#.utf8)
}

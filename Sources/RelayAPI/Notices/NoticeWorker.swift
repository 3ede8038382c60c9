/// The executor of notice connections: an event loop, or a queue in tests.
///
/// Performs orders one at a time in the order in which they were posted, by calling `NoticeConnectionRegistry.perform`.
package protocol NoticeWorker: Sendable {
    /// Enqueues an order. May be called from any thread.
    ///
    /// Must not block and must not perform the order before it returns.
    func post(_ order: NoticeOrder)
}

/// Work for the connections of one event loop.
package enum NoticeOrder: Sendable {
    /// Send this notice to all devices of the user on this event loop, except one.
    case deliver(OutgoingNotice, to: NoticeAddress, exceptDevice: String?)
    /// Send this notice to one device of the user, which was left out when its own change was announced.
    case remind(OutgoingNotice, to: NoticeAddress, device: String)
    /// Close one connection.
    case end(NoticeConnectionID, of: NoticeAddress, NoticeClose)
    /// Tell one connection the result of the renewal of its token.
    case renewed(RenewedToken?, for: NoticeConnectionID, of: NoticeAddress)
}

/// Identifies a connection within its hub.
package struct NoticeConnectionID: Hashable, Sendable {
    let number: UInt64
}

/// The connections of one event loop, by user.
///
/// Confined to that event loop. Finding a user's devices costs one lookup plus their number, independent of the number
/// of other connections.
package final class NoticeConnectionRegistry {
    private var byAddress: [NoticeAddress: [NoticeConnection]] = [:]

    package init() {}

    package func perform(_ order: NoticeOrder) {
        switch order {
        case .deliver(let notice, let address, let device):
            // A connection may end during the loop, so this iterates over a copy.
            guard let connections = byAddress[address] else { return }
            var reached = 0
            for connection in connections where device == nil || connection.deviceID != device {
                connection.deliver(notice)
                reached += 1
            }
            notice.delivery?.reached(reached)
        case .remind(let notice, let address, let device):
            for connection in byAddress[address] ?? [] where connection.deviceID == device {
                connection.deliver(notice)
            }
        case .end(let id, let address, let reason):
            byAddress[address]?.first { $0.id == id }?.end(reason)
        case .renewed(let token, let id, let address):
            byAddress[address]?.first { $0.id == id }?.handle(.renewed(token))
        }
    }

    func add(_ connection: NoticeConnection, at address: NoticeAddress) {
        byAddress[address, default: []].append(connection)
    }

    func remove(_ connection: NoticeConnection, at address: NoticeAddress) {
        guard let index = byAddress[address]?.firstIndex(where: { $0 === connection }) else { return }
        byAddress[address]?.remove(at: index)
        if byAddress[address]?.isEmpty == true { byAddress[address] = nil }
    }
}

package import Records
import RelayCore

/// A device that is connected for notices.
package struct ListeningDevice: Sendable {
    package var address: NoticeAddress
    package var deviceID: String
    /// When the device connected, by the hub's uptime clock; `nil` for a device that uses long polls.
    package var since: Duration?
    package var notices: NoticeTally.Counts
    /// The number of the user's subscriptions in all databases.
    package var subscriptions: Int
}

extension NoticeHub {
    /// Returns at most `limit` connected devices of one environment, and their total number.
    package func devices(in home: ContainerEnvironment, limit: Int) -> (devices: [ListeningDevice], count: Int) {
        listening(in: home, limit: limit)
    }

    /// Closes one device's connection; the device may reconnect.
    ///
    /// Returns `false` if it is not connected.
    package func disconnect(_ deviceID: String, of address: NoticeAddress) -> Bool {
        end(deviceID, of: address)
    }

    /// Sends the user's devices the notice that a change of their database would cause, if they have a subscription.
    package func sendTestNotice(to address: NoticeAddress) {
        guard let known = subscriptions(of: address), let item = known.items.first else { return }
        let subject = NoticeSubject(scope: item.scope, zone: nil)
        guard let notice = notice(about: subject, syncToken: nil, for: address, subscriptions: known) else { return }
        deliver(notice, to: address, exceptDevice: nil)
    }
}

package import Wire

/// The bytes of one frame, encoded once and shared by all connections that receive it.
///
/// A class so that a transport can cache its own encoding by identity.
package final class NoticeFrame: Sendable {
    /// The message's text.
    package let text: [UInt8]

    package init(_ frame: ServerFrame) { text = frame.encoded }
}

/// A notice for all devices of one user.
package struct OutgoingNotice: Sendable {
    /// The subject.
    ///
    /// A newer notice about the same subject replaces a queued one.
    package var subject: NoticeSubject
    package var frame: NoticeFrame
    /// Creates a frame without a zone, which replaces many notices if a client reads too slowly.
    package var collapsed: @Sendable () -> NoticeFrame
    /// The `aps` member if the notice is visible or audible.
    package var aps: [UInt8]?
    /// The measurement of its commit, if enabled.
    var delivery: NoticeDelivery?

    package init(_ notice: Notice) {
        aps = notice.aps
        subject = NoticeSubject(
            scope: notice.scope,
            zone: notice.zone,
            match: notice.query.map { .init(subscriptionID: notice.subscriptionID, recordName: $0.recordName) }
        )
        frame = NoticeFrame(.notice(notice))
        collapsed = {
            var whole = notice
            whole.zone = nil
            whole.syncToken = nil
            whole.aps = nil
            if whole.query != nil { whole.query = .init() }
            return NoticeFrame(.notice(whole))
        }
    }
}

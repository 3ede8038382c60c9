package import Wire

/// The bytes of one frame, encoded once and shared by every connection that gets it.
///
/// A reference, so that a transport can see by identity that it has the finished bytes already.
package final class NoticeFrame: Sendable {
    /// The message's text.
    package let text: [UInt8]

    package init(_ frame: ServerFrame) { text = frame.encoded }
}

/// A notice on its way to all devices of one user.
package struct OutgoingNotice: Sendable {
    /// What it is about: a newer one about the same replaces it while it waits.
    package var subject: NoticeSubject
    package var frame: NoticeFrame
    /// The same without a zone: what many notices collapse into when a reader is too slow for them.
    package var collapsed: @Sendable () -> NoticeFrame
    /// The `aps` member, where it is more than silent: for a person to see or hear.
    package var aps: [UInt8]?
    /// Its commit's, where somebody measures.
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

/// The notices one connection has not been able to send: at most one for each zone, and bounded.
///
/// A newer notice takes the place of an older one about the same zone. Past the bound all of them collapse into one for
/// each database, which says less precisely the same: fetch.
struct NoticeQueue: Sendable {
    private struct Entry: Sendable {
        var notice: OutgoingNotice
        var isCollapsed = false
    }

    private var entries: [Entry] = []
    private var bytes = 0
    /// Since when the reader has been too slow for the bound; `nil` once all has been sent.
    private(set) var fullSince: Duration?

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }

    mutating func put(_ notice: OutgoingNotice, limits: NoticeLimits, at now: Duration) {
        for index in entries.indices where entries[index].notice.subject.scope == notice.subject.scope {
            // A collapsed entry speaks for its whole database and stays as it is.
            if entries[index].isCollapsed { return }
            if entries[index].notice.subject == notice.subject {
                bytes += notice.frame.text.count - entries[index].notice.frame.text.count
                entries[index].notice = notice
                return
            }
        }
        entries.append(Entry(notice: notice))
        bytes += notice.frame.text.count
        guard entries.count > limits.queuedNotices || bytes > limits.queuedBytes else { return }
        fullSince = fullSince ?? now
        collapse()
    }

    /// Puts older notices before what is here, except those about a zone that is here already.
    mutating func putFirst(_ older: [OutgoingNotice], limits: NoticeLimits) {
        let newer = entries
        let since = fullSince
        entries = []
        bytes = 0
        for notice in older { put(notice, limits: limits, at: .zero) }
        for entry in newer {
            if entry.isCollapsed { entries.removeAll { $0.notice.subject.scope == entry.notice.subject.scope } }
            put(entry.notice, limits: limits, at: .zero)
            if entry.isCollapsed, !entries.isEmpty { entries[entries.count - 1].isCollapsed = true }
        }
        fullSince = since
    }

    /// The oldest frame, taken out.
    mutating func removeFirst() -> NoticeFrame? {
        guard !entries.isEmpty else { return nil }
        let frame = entries.removeFirst().notice.frame
        bytes -= frame.text.count
        if entries.isEmpty { self = NoticeQueue() }
        return frame
    }

    /// The frames to send, oldest first; nothing remains.
    mutating func removeAll() -> [NoticeFrame] { removeAllNotices().map(\.frame) }

    /// The same with what they are about.
    mutating func removeAllNotices() -> [OutgoingNotice] {
        let notices = entries.map(\.notice)
        self = NoticeQueue()
        return notices
    }

    private mutating func collapse() {
        var collapsed: [Entry] = []
        for entry in entries where !collapsed.contains(where: { $0.notice.subject.scope == entry.notice.subject.scope })
        {
            var notice = entry.notice
            notice.frame = notice.collapsed()
            notice.subject.zone = nil
            notice.subject.match = nil
            collapsed.append(Entry(notice: notice, isCollapsed: true))
        }
        entries = collapsed
        bytes = collapsed.reduce(0) { $0 + $1.notice.frame.text.count }
    }
}

/// The unsent notices of one connection: a bounded queue with at most one per zone.
///
/// A newer notice replaces an older one about the same zone. When the bound is exceeded, all notices collapse into one
/// for each database, which also makes the client fetch.
struct NoticeQueue: Sendable {
    private struct Entry: Sendable {
        var notice: OutgoingNotice
        var isCollapsed = false
    }

    private var entries: [Entry] = []
    private var bytes = 0
    /// Since when the reader has been too slow for the bound; `nil` if all notices have been sent since.
    private(set) var fullSince: Duration?

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }

    mutating func put(_ notice: OutgoingNotice, limits: NoticeLimits, at now: Duration) {
        for index in entries.indices where entries[index].notice.subject.scope == notice.subject.scope {
            // A collapsed entry stands for its whole database and does not change.
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

    /// Inserts older notices at the front, except those about a zone that is already queued.
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

    /// Removes and returns the oldest frame.
    mutating func removeFirst() -> NoticeFrame? {
        guard !entries.isEmpty else { return nil }
        let frame = entries.removeFirst().notice.frame
        bytes -= frame.text.count
        if entries.isEmpty { self = NoticeQueue() }
        return frame
    }

    /// Removes and returns all frames, oldest first.
    mutating func removeAll() -> [NoticeFrame] { removeAllNotices().map(\.frame) }

    /// Removes and returns all notices, oldest first.
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

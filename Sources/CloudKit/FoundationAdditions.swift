#if !canImport(Darwin)
    public import Foundation

    extension FileManager {
        /// The folder that programs of one application group share, as Apple's Foundation has it.
        ///
        /// Linux has no application groups: every program of the user that names the group gets the same folder, which is in
        /// the user's data folder (`$XDG_DATA_HOME`, or `~/.local/share`) under the group's name. The first call makes it,
        /// readable for the user alone.
        ///
        /// - Parameter groupIdentifier: The group, such as `group.org.example.notes`.
        /// - Returns: The folder; `nil` for a name that no folder can have, and where the folder cannot be made.
        public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? {
            let isName = !groupIdentifier.isEmpty && !groupIdentifier.hasPrefix(".")
            guard isName, !groupIdentifier.utf8.contains(where: { $0 == UInt8(ascii: "/") || $0 == 0 }),
                let data = urls(for: .applicationSupportDirectory, in: .userDomainMask).first
            else { return nil }
            let folder = data.appendingPathComponent(groupIdentifier, isDirectory: true)
            do {
                try createDirectory(
                    at: folder,
                    withIntermediateDirectories: true,
                    attributes: [.posixPermissions: 0o700]
                )
            } catch {
                return nil
            }
            return folder
        }
    }

    extension UserDefaults {
        /// Sets a value, with the key-value coding that Apple's samples for CloudKit use.
        public func setValue(_ value: Any?, forKey key: String) { set(value, forKey: key) }

        /// Returns a value, with key-value coding as on Apple platforms.
        public func value(forKey key: String) -> Any? { object(forKey: key) }
    }

    extension NotificationCenter {
        /// Returns a sequence of notifications, as Apple's Foundation does.
        ///
        /// Apps use it to wait for `.CKAccountChanged`.
        ///
        /// - Parameters:
        ///   - name: The name of the notifications.
        ///   - object: The object that posts the notifications; `nil` for any object.
        /// - Returns: A sequence that ends when its task is cancelled. Each iterator receives the notifications posted
        ///   after it was created.
        public func notifications(named name: Notification.Name, object: (any AnyObject & Sendable)? = nil)
            -> Notifications
        {
            Notifications(center: self, name: name, object: object)
        }

        /// A sequence of notifications.
        public struct Notifications: AsyncSequence, Sendable {
            /// The type of the elements.
            public typealias Element = Notification
            /// The sequence never fails.
            public typealias Failure = Never

            fileprivate let center: NotificationCenter
            fileprivate let name: Notification.Name
            fileprivate let object: (any AnyObject & Sendable)?

            /// Starts to observe.
            ///
            /// Notifications posted from now on are buffered for `next()`.
            public func makeAsyncIterator() -> Iterator {
                let stream = AsyncStream<Carried<Notification>> { continuation in
                    let observer = center.addObserver(forName: name, object: object, queue: nil) { notification in
                        continuation.yield(Carried(value: notification))
                    }
                    let carried = Carried(value: observer)
                    continuation.onTermination = { [center] _ in center.removeObserver(carried.value) }
                }
                return Iterator(base: stream.makeAsyncIterator())
            }

            /// An iterator over the notifications.
            public struct Iterator: AsyncIteratorProtocol {
                fileprivate var base: AsyncStream<Carried<Notification>>.Iterator

                /// Returns the next notification, in the order of posting; `nil` after the task is cancelled.
                public mutating func next() async -> Notification? { await base.next()?.value }

                /// Returns the next notification, on the caller's actor; `nil` after the task is cancelled.
                public mutating func next(isolation actor: isolated (any Actor)?) async -> Notification? {
                    await base.next(isolation: actor)?.value
                }
            }
        }
    }

    /// Carries a value from the thread that posts it to the task that waits for it.
    // Unchecked because Foundation's types are not marked as `Sendable`. One thread at a time uses the value: the
    // poster no longer uses the notification, and an observer is only passed back.
    private struct Carried<Value>: @unchecked Sendable {
        let value: Value
    }

    extension PersonNameComponents {
        /// Returns the name in the default style: the given name, then the family name.
        public func formatted() -> String { formatted(.name(style: .medium)) }

        /// Returns the name in a style, such as `.name(style: .long)`.
        ///
        /// - Parameter style: The style.
        /// - Returns: The formatted name.
        public func formatted<Style: Foundation.FormatStyle>(_ style: Style) -> Style.FormatOutput
        where Style.FormatInput == PersonNameComponents {
            style.format(self)
        }

        /// A format style for the names of participants, as in Apple's Foundation.
        ///
        /// Uses the order of western languages.
        public struct FormatStyle: Foundation.FormatStyle {
            /// The parts of a name to include.
            public enum Style: String, Codable, Hashable, Sendable {
                /// The nickname, or else the given name.
                case short
                /// The given name and the family name.
                case medium
                /// All parts.
                case long
                /// The initials.
                case abbreviated
            }

            /// The parts of a name to include.
            public var style: Style

            /// Creates a format style.
            ///
            /// - Parameter style: The parts of a name to include.
            public init(style: Style = .medium) { self.style = style }

            /// Returns the name in this style; empty if none of its parts is known.
            public func format(_ name: PersonNameComponents) -> String {
                let usual = [name.givenName, name.familyName].present
                return switch style {
                case .short: [name.nickname].present.first ?? usual.first ?? ""
                case .medium: usual.joined(separator: " ")
                case .long:
                    [name.namePrefix, name.givenName, name.middleName, name.familyName, name.nameSuffix].present
                        .joined(separator: " ")
                case .abbreviated: usual.compactMap { $0.first.map(String.init) }.joined()
                }
            }
        }
    }

    extension FormatStyle where Self == PersonNameComponents.FormatStyle {
        /// Returns a format style for names.
        ///
        /// - Parameter style: The parts of a name to include.
        /// - Returns: A style for `formatted(_:)`.
        public static func name(style: PersonNameComponents.FormatStyle.Style) -> Self { Self(style: style) }
    }

    extension [String?] {
        fileprivate var present: [String] { compactMap { $0 }.filter { !$0.isEmpty } }
    }
#endif

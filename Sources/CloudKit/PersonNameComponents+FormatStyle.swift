#if !canImport(Darwin)
    public import Foundation

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

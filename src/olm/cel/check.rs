//! Looks up what a rule names, and whether the types fit.

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr, operators,
};

use super::Environment;
use super::functions::{Function, KUBERNETES, OLM, Of, STANDARD};
use super::types::Type;
use crate::olm::pattern;

/// Names of types, and what those of libraries begin with.
const TYPES: [&str; 14] = [
    "bool",
    "bytes",
    "double",
    "google",
    "int",
    "kubernetes",
    "list",
    "map",
    "net",
    "null_type",
    "optional_type",
    "string",
    "type",
    "uint",
];
/// Macros that the parser does not know, and how many names they bind before all else.
const BINDING: [(&str, usize, usize); 10] = [
    ("all", 3, 2),
    ("exists", 3, 2),
    ("existsOne", 3, 2),
    ("exists_one", 3, 2),
    ("transformList", 3, 2),
    ("transformMap", 3, 2),
    ("transformMapEntry", 3, 2),
    ("optMap", 2, 1),
    ("optFlatMap", 2, 1),
    ("sortBy", 2, 1),
];

type Typed<'s> = Result<Type<'s>, String>;

/// A walk through one rule.
pub(super) struct Check<'s> {
    environment: Environment<'s>,
    /// What is bound, the innermost last.
    scope: Vec<(String, Type<'s>)>,
    /// Whether values of a list may be of several types.
    may_mix: bool,
    /// Whether `oldSelf` was met.
    pub uses_old: bool,
}

impl<'s> Check<'s> {
    pub fn new(environment: Environment<'s>) -> Self {
        let scope = match environment {
            Environment::Kubernetes {
                schema,
                is_resource,
                is_old_optional,
            } => {
                let of_self = Type::of(schema, is_resource).unwrap_or(Type::Any);
                let old = if is_old_optional {
                    Type::Any
                } else {
                    of_self.clone()
                };
                vec![("self".to_owned(), of_self), ("oldSelf".to_owned(), old)]
            }
            Environment::Constraint => vec![("properties".to_owned(), Type::list(Type::map(Type::Any)))],
        };
        Self {
            environment,
            scope,
            may_mix: false,
            uses_old: false,
        }
    }

    /// The type of an expression.
    pub fn expression(&mut self, expression: &IdedExpr) -> Typed<'s> {
        match &expression.expr {
            Expr::Unspecified => Ok(Type::Any),
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Struct(made) => {
                self.values(made.entries.iter().map(|entry| &entry.expr))?;
                Ok(Type::Any)
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn is_kubernetes(&self) -> bool {
        matches!(self.environment, Environment::Kubernetes { .. })
    }

    fn bound(&self, name: &str) -> Option<&Type<'s>> {
        let mut inner = self.scope.iter().rev();
        inner.find(|(bound, _)| bound == name).map(|(_, bound)| bound)
    }

    fn variable(&mut self, name: &str) -> Typed<'s> {
        self.uses_old |= name == "oldSelf";
        match self.bound(name) {
            Some(bound) => Ok(bound.clone()),
            None if TYPES.contains(&name) => Ok(Type::Any),
            None => Err(format!("there is no {name} here")),
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Typed<'s> {
        let field = self.expression(&select.operand)?.field(&select.field)?;
        Ok(if select.test { Type::Bool } else { field })
    }

    fn list(&mut self, list: &ListExpr) -> Typed<'s> {
        let mut items: Option<Type<'s>> = None;
        for (index, element) in list.elements.iter().enumerate() {
            let found = self.expression(element)?;
            let found = if list.optional_indices.contains(&index) {
                Type::Any
            } else {
                found
            };
            items = Some(self.alike(items, found)?);
        }
        Ok(Type::list(items.unwrap_or(Type::Any)))
    }

    fn map(&mut self, map: &MapExpr) -> Typed<'s> {
        let values = self.values(map.entries.iter().map(|entry| &entry.expr))?;
        Ok(Type::map(values.unwrap_or(Type::Any)))
    }

    fn values<'e>(
        &mut self,
        entries: impl Iterator<Item = &'e EntryExpr>,
    ) -> Result<Option<Type<'s>>, String> {
        let mut values = None;
        for entry in entries {
            let (value, is_optional) = match entry {
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key)?;
                    (&entry.value, entry.optional)
                }
                EntryExpr::StructField(field) => {
                    self.expression(&field.value)?;
                    continue;
                }
            };
            let found = self.expression(value)?;
            let found = if is_optional { Type::Any } else { found };
            values = Some(self.alike(values, found)?);
        }
        Ok(values)
    }

    /// What the values of a list or map have in common. Kubernetes wants them to be of one type, but where they are put into a text.
    fn alike(&self, before: Option<Type<'s>>, found: Type<'s>) -> Typed<'s> {
        match before {
            None => Ok(found),
            Some(before) if before == found => Ok(before),
            Some(before) if self.is_kubernetes() && !self.may_mix && before.is_apart(&found) => {
                Err(format!("values of a list or map are {before} and {found}"))
            }
            Some(_) => Ok(Type::Any),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Typed<'s> {
        let item = match self.expression(&comprehension.iter_range)? {
            Type::List(items) => *items,
            Type::Map(_) | Type::Any => Type::Any,
            other => return Err(format!("{other} has no items to go through")),
        };
        let begun = self.expression(&comprehension.accu_init)?;
        let outside = self.scope.len();
        self.scope.push((comprehension.accu_var.clone(), begun));
        self.scope.push((comprehension.iter_var.clone(), item));
        self.scope
            .extend(comprehension.iter_var2.clone().map(|name| (name, Type::Any)));
        self.expression(&comprehension.loop_cond)?;
        self.expression(&comprehension.loop_step)?;
        let found = self.expression(&comprehension.result)?;
        self.scope.truncate(outside);
        Ok(found)
    }

    fn call(&mut self, call: &CallExpr) -> Typed<'s> {
        if let Some(namespaced) = self.namespaced(call) {
            return self.function(&namespaced, None, &call.args);
        }
        let Some(target) = &call.target else {
            return match self.operator(call) {
                Some(found) => found,
                None => self.function(&call.func_name, None, &call.args),
            };
        };
        let target = self.expression(target)?;
        self.function(&call.func_name, Some(&target), &call.args)
    }

    /// The name of a function that belongs to a library, such as `sets.contains`.
    fn namespaced(&self, call: &CallExpr) -> Option<String> {
        let Some(Expr::Ident(library)) = call.target.as_ref().map(|target| &target.expr) else {
            return None;
        };
        let name = format!("{library}.{}", call.func_name);
        let is_known = self.functions().any(|function| function.name == name);
        (is_known && self.bound(library).is_none()).then_some(name)
    }

    fn functions(&self) -> impl Iterator<Item = &'static Function> + use<> {
        let added = if self.is_kubernetes() { KUBERNETES } else { OLM };
        STANDARD.iter().chain(added)
    }

    fn function(&mut self, name: &str, target: Option<&Type<'s>>, given: &[IdedExpr]) -> Typed<'s> {
        self.arguments(name, target.is_some(), given)?;
        let is_method = target.is_some();
        let mut named = self
            .functions()
            .filter(|function| function.name == name && (function.of != Of::Nothing) == is_method)
            .peekable();
        if named.peek().is_none() {
            let what = if is_method { "method" } else { "function" };
            return Err(format!("there is no {what} {name}"));
        }
        let fits = |function: &&Function| {
            function.takes.contains(&given.len()) && target.is_none_or(|target| !function.of.is_apart(target))
        };
        match named.find(fits) {
            Some(function) => Ok(function.gives.of_type()),
            None => Err(match target {
                Some(target) => format!("{target} has no method {name} of {} arguments", given.len()),
                None => format!("there is no function {name} of {} arguments", given.len()),
            }),
        }
    }

    /// Looks at arguments. Those of some macros bind names first.
    fn arguments(&mut self, name: &str, is_method: bool, given: &[IdedExpr]) -> Result<(), String> {
        let binding = BINDING.iter().find(|(binding, least, _)| {
            is_method && self.is_kubernetes() && *binding == name && given.len() >= *least
        });
        let (names, values) = given.split_at(binding.map_or(0, |(_, _, count)| *count));
        let (outside, may_mix) = (self.scope.len(), self.may_mix);
        self.may_mix |= is_method && name == "format";
        for bound in names {
            let Expr::Ident(bound) = &bound.expr else {
                return Err(format!("{name} begins with names"));
            };
            self.scope.push((bound.clone(), Type::Any));
        }
        let found = values.iter().try_for_each(|value| {
            self.expression(value)?;
            match &value.expr {
                Expr::Literal(LiteralValue::String(text)) if name == "matches" && self.is_kubernetes() => {
                    let wrong = pattern::is_none(text.inner());
                    wrong.map_or(Ok(()), |why| {
                        Err(format!("{:?} is no regular expression: {why}", text.inner()))
                    })
                }
                _ => Ok(()),
            }
        });
        self.scope.truncate(outside);
        self.may_mix = may_mix;
        found
    }

    /// What an operator makes of its operands, if it is one.
    fn operator(&mut self, call: &CallExpr) -> Option<Typed<'s>> {
        let name = call.func_name.as_str();
        Some(match (name, call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, then, otherwise]) => self.choice(condition, then, otherwise),
            (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [operand]) => self.truth(&[operand]),
            (operators::LOGICAL_AND | operators::LOGICAL_OR, operands) => {
                self.truth(&operands.iter().collect::<Vec<_>>())
            }
            (operators::NEGATE, [operand]) => self.expression(operand),
            (operators::OPT_SELECT, [operand, field]) => self.optional(operand, field),
            (operators::OPT_INDEX, [operand, index]) => self.index(operand, index).map(|_| Type::Any),
            (operators::INDEX, [operand, index]) => self.index(operand, index),
            (operators::IN, [item, items]) => self.contained(item, items),
            (_, [one, other]) => {
                let operation = Operation::named(name)?;
                self.pair(one, other)
                    .and_then(|(one, other)| operation.applied(&one, &other))
            }
            _ => return None,
        })
    }

    fn pair(&mut self, one: &IdedExpr, other: &IdedExpr) -> Result<(Type<'s>, Type<'s>), String> {
        Ok((self.expression(one)?, self.expression(other)?))
    }

    fn truth(&mut self, operands: &[&IdedExpr]) -> Typed<'s> {
        for operand in operands {
            let found = self.expression(operand)?;
            if found.is_apart(&Type::Bool) {
                return Err(format!("{found} is neither true nor false"));
            }
        }
        Ok(Type::Bool)
    }

    fn choice(&mut self, condition: &IdedExpr, then: &IdedExpr, otherwise: &IdedExpr) -> Typed<'s> {
        self.truth(&[condition])?;
        let (then, otherwise) = self.pair(then, otherwise)?;
        if then.is_apart(&otherwise) {
            return Err(format!("one choice is {then}, the other {otherwise}"));
        }
        Ok(if then == otherwise { then } else { Type::Any })
    }

    fn optional(&mut self, operand: &IdedExpr, field: &IdedExpr) -> Typed<'s> {
        let found = self.expression(operand)?;
        if let Expr::Literal(LiteralValue::String(name)) = &field.expr {
            found.field(name.inner())?;
        }
        Ok(Type::Any)
    }

    fn index(&mut self, operand: &IdedExpr, index: &IdedExpr) -> Typed<'s> {
        let (found, index) = self.pair(operand, index)?;
        match found {
            Type::Any => Ok(Type::Any),
            Type::List(items) if !index.is_apart(&Type::Int) => Ok(*items),
            Type::Map(values) if !index.is_apart(&Type::String) || !self.is_kubernetes() => Ok(*values),
            // What stands in a rule as a map may have keys of any type
            Type::Map(_) => Ok(Type::Any),
            found => Err(format!("{found} has no items of which {index} is the index")),
        }
    }

    fn contained(&mut self, item: &IdedExpr, items: &IdedExpr) -> Typed<'s> {
        let (item, items) = self.pair(item, items)?;
        match items {
            Type::Any | Type::Map(_) => Ok(Type::Bool),
            Type::List(each) if !item.is_apart(&each) => Ok(Type::Bool),
            Type::List(each) => Err(format!("{item} is never in a list of which each is {each}")),
            other => Err(format!("nothing is in {other}, which is neither list nor map")),
        }
    }
}

fn of_literal<'s>(literal: &LiteralValue) -> Type<'s> {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// What is done to two values.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Equal,
    Compare,
    Add,
    Subtract,
    Multiply,
    Remainder,
}

impl Operation {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            operators::EQUALS | operators::NOT_EQUALS => Self::Equal,
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
                Self::Compare
            }
            operators::ADD => Self::Add,
            operators::SUBSTRACT => Self::Subtract,
            operators::MULTIPLY | operators::DIVIDE => Self::Multiply,
            operators::MODULO => Self::Remainder,
            _ => return None,
        })
    }

    fn applied<'s>(self, one: &Type<'s>, other: &Type<'s>) -> Typed<'s> {
        use Type::{Any, Bool, Bytes, Double, Duration, Int, List, Null, String, Timestamp, Uint};
        let found = match (self, one, other) {
            (Self::Equal, one, other) => (!one.is_apart(other)).then_some(Bool),
            (Self::Compare, Any, _) | (Self::Compare, _, Any) => Some(Bool),
            (Self::Compare, one, other) if one.is_numeric() && other.is_numeric() => Some(Bool),
            (Self::Compare, Bool | String | Bytes | Duration | Timestamp, _) => {
                (one == other).then_some(Bool)
            }
            (_, Any | Null, _) | (_, _, Any | Null) => Some(Any),
            (Self::Remainder, Int | Uint, _) => (one == other).then(|| one.clone()),
            (Self::Add | Self::Subtract | Self::Multiply, Int | Uint | Double, _) => {
                (one == other).then(|| one.clone())
            }
            (Self::Add, List(_), List(_)) if one.is_apart(other) => None,
            (Self::Add, List(_), List(_)) => Some(if one == other {
                one.clone()
            } else {
                Type::list(Any)
            }),
            (Self::Add, String | Bytes, _) => (one == other).then(|| one.clone()),
            (Self::Add | Self::Subtract, Duration, Duration) => Some(Duration),
            (Self::Add, Timestamp, Duration) | (Self::Add, Duration, Timestamp) => Some(Timestamp),
            (Self::Subtract, Timestamp, Duration) => Some(Timestamp),
            (Self::Subtract, Timestamp, Timestamp) => Some(Duration),
            _ => None,
        };
        let done = match self {
            Self::Equal => "compared for being the same",
            Self::Compare => "compared",
            Self::Add => "added",
            Self::Subtract => "subtracted",
            Self::Multiply => "multiplied or divided",
            Self::Remainder => "divided for what remains",
        };
        found.ok_or_else(|| format!("{one} and {other} cannot be {done}"))
    }
}

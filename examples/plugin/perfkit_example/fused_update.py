from perfkit import Claim, Relation, Technique
from perfkit.techniques.base.technique import Stage


class FusedUpdate(Technique):
    name = "fused_update"
    summary = "the optimizer's update in one kernel for all parameters"
    stage = Stage.OPTIMIZER

    def apply(self, state):
        state.optimizer_changes.append(fused)
        return state

    def claims(self, state):
        fact = "op_calls:aten::_fused_*"
        return (Claim(technique=self.name, statement="its op runs", fact=fact, relation=Relation.AT_LEAST, value=1),)


def fused(optimizer):
    for group in optimizer.param_groups:
        group.update(fused=True, foreach=False)
    return optimizer
